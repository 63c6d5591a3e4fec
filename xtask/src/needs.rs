//! What a suite needs beyond Rust, and how to get it.

use std::{path::PathBuf, process::Command};

use crate::workspace;

/// Something that must be there before a suite can run.
pub enum Need {
    /// A program, and the Debian package that brings it.
    Program {
        /// Name on the path.
        name: &'static str,
        /// Package.
        apt: &'static str,
    },
    /// A component of the Rust toolchain, run as a cargo command.
    Component {
        /// `cargo NAME`.
        command: &'static str,
        /// Name for rustup.
        rustup: &'static str,
    },
    /// A module of Python, and the package of the Python index that brings it.
    Python {
        /// `import NAME`.
        module: &'static str,
        /// Package.
        pip: &'static str,
    },
    /// The packages of a folder's `package-lock.json`, exactly those.
    Npm(&'static str),
    /// A folder of the shared data beside the checkout.
    Shared(&'static str),
}

/// Why a suite does not run.
pub struct Missing {
    /// For people.
    pub reason: String,
    /// Whether `--strict` lets it pass: data beside the checkout is no part of the project.
    pub tolerated: bool,
}

impl Need {
    /// Looks, installs where that is possible, looks again.
    pub fn meet(&self) -> Result<(), Missing> {
        if self.is_there() || (self.install() && self.is_there()) {
            return Ok(());
        }
        Err(match self {
            Self::Program { name, apt } => Missing {
                reason: format!("`{name}` is not installed: apt-get install {apt}"),
                tolerated: false,
            },
            Self::Component { command, rustup } => Missing {
                reason: format!(
                    "`cargo {command}` is not installed: rustup component add {rustup}"
                ),
                tolerated: false,
            },
            Self::Python { module, pip } => Missing {
                reason: format!("Python has no `{module}`: pip install {pip}"),
                tolerated: false,
            },
            Self::Npm(folder) => Missing {
                reason: format!("{folder} lacks its packages: npm ci --prefix {folder}"),
                tolerated: false,
            },
            Self::Shared(folder) => Missing {
                reason: format!("needs {}, which is not there", shared(folder).display()),
                tolerated: true,
            },
        })
    }

    fn is_there(&self) -> bool {
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

/// Whether a skip with this reason is forgiven by `--strict`: the data beside the checkout is not there.
pub fn is_tolerated(reason: &str) -> bool {
    reason.to_lowercase().contains("shared")
}

fn shared(folder: &str) -> PathBuf {
    workspace::shared_dir().join(folder)
}

fn on_path(name: &str) -> bool {
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

/// A copy of the lock file beside the packages says for which one they were installed.
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

fn quietly(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
