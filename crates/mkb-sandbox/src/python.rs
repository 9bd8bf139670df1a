//! What a Python needs to see of itself.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, at};
use crate::plan::View;

impl View {
    /// Shows the Python at `python` what it needs to run: its virtual environment, if it is one's,
    /// and program and libraries of the installation behind it, wherever links lead to. Nothing
    /// else of the folders that these stand in.
    ///
    /// # Errors
    /// If it is no program, or its links go round in circles.
    pub fn show_python(&mut self, python: &Path) -> Result<()> {
        let mut path = std::path::absolute(python).map_err(at(python))?;
        for _ in 0..40 {
            let Some(prefix) = path.parent().and_then(Path::parent).map(Path::to_owned) else {
                let why = "a Python stands in a folder `bin` of its installation";
                return Err(Error::BadPath { path, why });
            };
            if prefix.join("pyvenv.cfg").is_file() {
                self.add(prefix);
            } else {
                self.add(path.clone());
                for name in ["lib", "lib64"] {
                    let libraries = prefix.join(name);
                    // The system's are shown anyway.
                    if libraries.is_dir() && prefix.parent().is_some() {
                        self.add(libraries);
                    }
                }
            }
            match fs::read_link(&path) {
                Ok(to) => path = lexically(&path.with_file_name("").join(to)),
                Err(_) if path.is_file() => return Ok(()),
                Err(error) => return Err(at(python)(error)),
            }
        }
        Err(Error::BadPath {
            path: python.to_owned(),
            why: "its links go round in circles",
        })
    }

    fn add(&mut self, path: PathBuf) {
        if !self.read_only.contains(&path) {
            self.read_only.push(path);
        }
    }
}

/// Without `.` and `..`, which a sandbox's paths cannot have.
fn lexically(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_environment_and_the_installation_behind_it_are_shown_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for path in ["real/bin", "real/lib/python3.11", "env/bin", "documents"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        fs::write(home.join("real/bin/python3.11"), "").unwrap();
        fs::write(home.join("env/pyvenv.cfg"), "").unwrap();
        symlink("real", home.join("alias")).unwrap();
        symlink("../../alias/bin/python3.11", home.join("env/bin/python3")).unwrap();
        symlink("python3", home.join("env/bin/python")).unwrap();
        let mut view = View::default();
        view.show_python(&home.join("env/bin/python")).unwrap();
        let expected = ["env", "alias/bin/python3.11", "alias/lib"].map(|p| home.join(p));
        assert_eq!(view.read_only, expected);
    }

    #[test]
    fn what_is_no_python_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        symlink(&a, &b).unwrap();
        symlink(&b, &a).unwrap();
        assert!(View::default().show_python(&a).is_err());
        assert!(
            View::default()
                .show_python(&folder.path().join("none"))
                .is_err()
        );
        assert!(View::default().show_python(Path::new("/python")).is_err());
    }
}
