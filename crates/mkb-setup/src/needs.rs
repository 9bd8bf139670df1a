//! What set-up needs of the machine, looked at without changing anything.

use rustix::fs::statvfs;

use crate::steps::Options;
use crate::{SetupError, python};

/// One thing that set-up needs.
#[derive(Debug)]
pub struct Need {
    /// What it is.
    pub name: &'static str,
    /// What was found, in words; or why it does not do, and what to do.
    pub found: Result<String, SetupError>,
}

/// Everything that set-up needs but the network. Disk space is looked at by [`free_bytes`].
pub fn needs(options: &Options) -> Vec<Need> {
    let platform = (std::env::consts::OS, std::env::consts::ARCH);
    vec![
        Need {
            name: "platform",
            found: match platform {
                ("linux", "x86_64") => Ok("Linux on x86-64".to_owned()),
                (os, arch) => Err(SetupError::Platform { os, arch }),
            },
        },
        Need {
            name: "Python",
            found: python::find(options.python.as_deref())
                .map(|p| format!("{} at {}, with venv", p.version, p.path.display())),
        },
        Need {
            name: "compilers",
            found: python::check_compilers().map(|()| "cc, and c++ with C++20".to_owned()),
        },
    ]
}

/// Free bytes for this user where the repository lies.
///
/// # Errors
/// Where the system does not say.
pub fn free_bytes(options: &Options) -> Result<u64, SetupError> {
    let about =
        statvfs(&options.root).map_err(|error| SetupError::file(&options.root)(error.into()))?;
    Ok(about.f_bavail * about.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_python_is_named_and_the_rest_is_still_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = Options::new(folder.path());
        options.python = Some(folder.path().join("none"));
        let found = needs(&options);
        assert_eq!(found.len(), 3);
        let message = found[1].found.as_ref().expect_err("no Python").to_string();
        assert!(message.contains("MKB_PYTHON"), "{message}");
        assert!(free_bytes(&options).expect("a file system") > 0);
    }
}
