//! What can go wrong with a sandbox, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel or its policy does not let this user make the namespaces.
    #[error(
        "this machine refuses the namespaces that a sandbox needs ({0}). Choices: allow \
         unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 and \
         kernel.apparmor_restrict_unprivileged_userns=0, or user.max_user_namespaces above 0); in \
         a container, start it with the right to make them; or run without isolation, knowingly, \
         by --sandbox none"
    )]
    NamespacesRefused(#[source] io::Error),

    /// The driver is root, but without the rights that dropping root takes.
    #[error(
        "started as root without {0}, so untrusted code could not be taken away from root; run as \
         an ordinary user, or give this container that capability"
    )]
    HalfRoot(&'static str),

    /// A platform without an implementation.
    #[error("sandboxes need Linux 5.14 or later on x86-64: {0}")]
    Unsupported(String),

    /// A step of the set-up failed.
    #[error("sandbox set-up: {step}: {source}")]
    Setup {
        /// The step, in words.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },

    /// The target program could not be executed inside the sandbox.
    #[error(
        "{program} could not be started in the sandbox: {source}{}",
        hint(source)
    )]
    Exec {
        /// The program's path inside.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },

    /// A path that a sandbox cannot take.
    #[error("{path}: {why}")]
    BadPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },

    /// A file in the sandbox is larger than the caller allows.
    #[error("{path} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The path inside.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The caller's limit in bytes.
        limit: u64,
    },

    /// The sandbox did not answer.
    #[error("the sandbox did not {0} in time")]
    Unresponsive(&'static str),

    /// A file operation outside the sandbox.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A system call of the driver.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            " (it, or the interpreter or link behind it, is not among what the sandbox is shown)"
        }
        _ => "",
    }
}

/// Names the path of a failed file operation.
pub(crate) fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Error + '_ {
    move |source| Error::Io {
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Names a failed system call.
pub(crate) fn call<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System {
        call,
        source: source.into(),
    }
}
