//! Where the program finds its parts: problems, Python modules, devices, the workers' environment.

use std::path::{Path, PathBuf};

use anyhow::Result;
use mkb_judge::station::Runtime;
use mkb_sandbox::{Isolation, View};
use mkb_setup::Documentation;

use crate::usage::Usage;
use crate::{cli, setup};

/// The folder with `problems/`, `python/` and `devices/`.
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The one given, or the repository that this program was built from.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = given.unwrap_or(&built);
        let root = root
            .canonicalize()
            .map_err(|_| Usage::error(format!("{} is not there; give --home", root.display())))?;
        for part in ["problems", "python", "devices"] {
            if !root.join(part).is_dir() {
                let what = format!("{} has no folder {part}; give --home", root.display());
                return Err(Usage::error(what));
            }
        }
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The documentation that agents get, by DSL and device.
    pub fn documentation(&self) -> Result<Documentation> {
        setup::documentation(&self.root)
    }

    pub fn problems(&self) -> PathBuf {
        self.root.join("problems")
    }

    /// A folder for what is generated and may be deleted.
    pub fn state(&self) -> PathBuf {
        self.root.join(".mkb")
    }

    /// How workers are started, with the environment made first if it is not whole.
    pub fn runtime(&self, sandbox: cli::Sandbox) -> Result<Runtime> {
        let environment = setup::ensure(&self.root)?;
        let mut view = View::default();
        view.read_only.push(self.root.join("python"));
        view.show_python(&environment.python)?;
        Ok(Runtime {
            python: environment.python,
            python_path: environment.pythonpath,
            env: environment.variables,
            read_only: view.read_only,
            isolation: match sandbox {
                cli::Sandbox::Namespaces => Isolation::Namespaces,
                cli::Sandbox::None => Isolation::None,
            },
        })
    }
}
