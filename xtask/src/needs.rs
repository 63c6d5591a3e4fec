//! Prerequisites of suites beyond Rust, and how to install them.

use std::{path::PathBuf, process::Command};

use crate::workspace;

/// A prerequisite of a suite.
pub enum Need {
    /// A program, and the Debian package that contains it.
    Program {
        /// Name of the executable.
        name: &'static str,
        /// Package.
        apt: &'static str,
    },
    /// A component of the Rust toolchain, run as a cargo command.
    Component {
        /// `cargo NAME`.
        command: &'static str,
        /// Name of the rustup component.
        rustup: &'static str,
    },
    /// A Python module, and the package of the Python index that contains it.
    Python {
        /// `import NAME`.
        module: &'static str,
        /// Package.
        pip: &'static str,
    },
    /// The exact packages of a folder's `package-lock.json`.
    Npm(&'static str),
    /// A folder of the shared data next to the checkout.
    Shared(&'static str),
}

/// Why a suite or a test does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// A message for display.
    pub reason: String,
    /// Whether `--strict` accepts it: it is not part of the project, and not every machine can install it.
    pub tolerated: bool,
}

impl Missing {
    /// Something that `--strict` requires.
    pub fn required(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            tolerated: false,
        }
    }

    /// Something that `--strict` accepts.
    pub fn tolerated(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            tolerated: true,
        }
    }
}

impl Need {
    /// Checks, installs if possible, checks again.
    pub fn meet(&self) -> Result<(), Missing> {
        if self.is_met() || (self.install() && self.is_met()) {
            return Ok(());
        }
        Err(match self {
            Self::Program { name, apt } => {
                Missing::required(format!("`{name}` is not installed: apt-get install {apt}"))
            }
            Self::Component { command, rustup } => Missing::required(format!(
                "`cargo {command}` is not installed: rustup component add {rustup}"
            )),
            Self::Python { module, pip } => {
                Missing::required(format!("Python has no `{module}`: pip install {pip}"))
            }
            Self::Npm(folder) => Missing::required(format!(
                "{folder} lacks its packages: npm ci --prefix {folder}"
            )),
            Self::Shared(folder) => Missing::tolerated(format!(
                "needs {}, which does not exist",
                shared(folder).display()
            )),
        })
    }

    /// Whether it is installed.
    pub fn is_met(&self) -> bool {
        match self {
            Self::Program { name, .. } => on_path(name),
            Self::Component { command, .. } => {
                quietly(workspace::cargo().args([command, "--version"]))
            }
            Self::Python { module, .. } => {
                quietly(Command::new("python3").args(["-c", &format!("import {module}")]))
            }
            Self::Npm(folder) => npm_is_current(folder),
            Self::Shared(folder) => shared(folder).is_dir(),
        }
    }

    fn install(&self) -> bool {
        match self {
            Self::Program { apt, .. } => is_root() && apt_install(apt),
            Self::Component { rustup, .. } => {
                on_path("rustup")
                    && quietly(Command::new("rustup").args(["component", "add", rustup]))
            }
            Self::Python { pip, .. } => {
                quietly(Command::new("python3").args(["-m", "pip", "install", pip]))
            }
            Self::Npm(folder) => on_path("npm") && npm_install(folder),
            Self::Shared(_) => false,
        }
    }
}

fn shared(folder: &str) -> PathBuf {
    workspace::shared_dir().join(folder)
}

/// Whether a program is on the path.
pub fn on_path(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

fn is_root() -> bool {
    let uid = Command::new("id").arg("-u").output();
    uid.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_install(packages: &str) -> bool {
    let install = || {
        let mut command = Command::new("apt-get");
        quietly(
            command
                .args(["install", "-y", "--no-install-recommends"])
                .args(packages.split_whitespace())
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    install() || (quietly(Command::new("apt-get").arg("update")) && install())
}

/// A copy of the lock file next to the packages records the version that was installed.
fn npm_mark(folder: &str) -> PathBuf {
    workspace::root()
        .join(folder)
        .join("node_modules/.installed")
}

fn npm_is_current(folder: &str) -> bool {
    let lock = std::fs::read(workspace::root().join(folder).join("package-lock.json"));
    matches!((lock, std::fs::read(npm_mark(folder))), (Ok(lock), Ok(installed)) if lock == installed)
}

fn npm_install(folder: &str) -> bool {
    let root = workspace::root().join(folder);
    let install = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&root)
        .output();
    install.is_ok_and(|output| output.status.success())
        && std::fs::copy(root.join("package-lock.json"), npm_mark(folder)).is_ok()
}

/// Runs a command without its output; whether it succeeded.
pub fn quietly(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
