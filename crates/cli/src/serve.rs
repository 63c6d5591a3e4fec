//! `isomer serve` and `isomer config`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use isomer_db::Sharing;
use isomer_server::{
    ServeOptions as Served,
    config::{Layers, Origin},
    run, start_logging,
};

use crate::{open, style};

/// Options of `isomer serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer serve people.isomer
  isomer serve people.isomer orders=/data/shop.isomer --create
  isomer serve people.isomer --bolt 127.0.0.1:7687
  isomer serve people.isomer --config server.toml --set limits.query_time=5s
  isomer serve people.isomer --reuse-port & isomer serve people.isomer --reuse-port
  isomer serve people.isomer --listen 127.0.0.1:4766-4769
  isomer serve people.isomer --listen 0.0.0.0:4766 --tls-certificate cert.pem --tls-key key.pem

Settings come from the file, then the environment (ISOMER_LISTEN, ISOMER_LIMITS_BODY, …), then flags; `isomer config print`
lists all of them. The first start prints a token for the first administrator. See docs/server.md.")]
pub struct ServeOptions {
    /// Databases, each under the name of its folder, or as NAME=FOLDER
    #[arg(value_name = "DB")]
    pub databases: Vec<String>,
    /// Creates databases that are missing
    #[arg(long)]
    pub create: bool,
    #[command(flatten)]
    pub settings: SettingOptions,
}

/// Sources of settings.
#[derive(Clone, Debug, Args)]
pub struct SettingOptions {
    /// A file with settings [default: the one named by ISOMER_CONFIG, or none]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port to listen on; beyond this machine only with users and TLS
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address and port for Neo4j's drivers (Bolt), such as 127.0.0.1:7687; disabled by default
    #[arg(long, value_name = "ADDRESS")]
    pub bolt: Option<String>,
    /// Listens on the same port as other servers of this user that set it, which share the databases (Linux)
    #[arg(long)]
    pub reuse_port: bool,
    /// Folder of users and tokens [default: `isomer-system` next to the first database]
    #[arg(long, value_name = "DIR")]
    pub system: Option<String>,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// Private key, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Disables authentication: every client may do everything
    #[arg(long)]
    pub without_authentication: bool,
    /// Listens beyond this machine even without users or TLS
    #[arg(long)]
    pub expose_without_protection: bool,
    /// Any setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl SettingOptions {
    fn layers(&self) -> Result<Layers> {
        let mut layers = Layers::new();
        let named = std::env::var_os("ISOMER_CONFIG").map(PathBuf::from);
        if let Some(path) = self.config.clone().or(named) {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            layers.add_file(&path, &text)?;
        }
        layers.add_environment(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))?;
        for (key, value) in [
            ("listen", &self.listen),
            ("bolt", &self.bolt),
            ("system", &self.system),
            ("tls.certificate", &self.tls_certificate),
            ("tls.key", &self.tls_key),
        ] {
            if let Some(value) = value {
                layers.add_flag(key, value)?;
            }
        }
        for (key, given) in [
            ("without_authentication", self.without_authentication),
            ("expose_without_protection", self.expose_without_protection),
            ("reuse_port", self.reuse_port),
        ] {
            if given {
                layers.add_flag(key, "true")?;
            }
        }
        match open::sharing() {
            Some(Sharing::Shared) => layers.add_flag("sharing", "shared")?,
            Some(_) => layers.add_flag("sharing", "exclusive")?,
            None => {}
        }
        for setting in &self.set {
            let Some((key, value)) = setting.split_once('=') else {
                bail!("`--set {setting}` has no `=`: write KEY=VALUE");
            };
            layers.add_flag(key.trim(), value.trim())?;
        }
        Ok(layers)
    }
}

/// Runs the command.
pub fn command(options: &ServeOptions) -> Result<()> {
    let config = options.settings.layers()?.config()?;
    if options.databases.is_empty() && config.databases_folder.is_none() {
        bail!("nothing to serve: name a database, or set `databases_folder`");
    }
    start_logging(&config);
    let mut served = Served::new(config);
    served.key = open::key()?;
    served.builder = match &served.key {
        Some(key) => open::shared_builder().key(key.clone()),
        None => open::shared_builder(),
    };
    served.create = options.create;
    served.databases = options
        .databases
        .iter()
        .map(|given| database(given))
        .collect();
    // Unlike arguments, variables are not visible to others in the list of processes.
    served.admin_password = std::env::var("ISOMER_ADMIN_PASSWORD").ok();
    Ok(run(served)?)
}

/// A database on the command line: its name, if given, and its folder.
fn database(given: &str) -> (Option<String>, PathBuf) {
    match given.split_once('=') {
        Some((name, path)) if !name.contains('/') => (Some(name.to_owned()), path.into()),
        _ => (None, given.into()),
    }
}

/// Options of `isomer config`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer config print
  isomer config print --origin --config server.toml
  isomer config check --config server.toml")]
pub struct ConfigOptions {
    #[command(subcommand)]
    pub what: ConfigCommand,
}

/// Actions on settings.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints all settings as a configuration file
    Print {
        /// Shows the source of each setting
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        settings: SettingOptions,
    },
    /// Checks whether the settings are valid
    Check {
        #[command(flatten)]
        settings: SettingOptions,
    },
}

/// Runs `isomer config`.
pub fn config(options: &ConfigOptions) -> Result<()> {
    match &options.what {
        ConfigCommand::Print { origin, settings } => {
            let layers = settings.layers()?;
            print(&layers, *origin)?;
            // Printing shows the source of an invalid value, which the server would refuse.
            layers.config()?;
            Ok(())
        }
        ConfigCommand::Check { settings } => {
            settings.layers()?.config()?;
            Ok(style::line("the settings are valid")?)
        }
    }
}

/// All settings as a file that can be read again, each with its description.
fn print(layers: &Layers, with_origin: bool) -> Result<()> {
    let mut table = "";
    for (setting, value, origin) in layers.all() {
        let (section, key) = setting.key.split_once('.').unwrap_or(("", setting.key));
        if section != table {
            style::line(&format!("\n[{section}]"))?;
            table = section;
        }
        let comment = match (with_origin, &origin) {
            (true, origin) => format!("  # {origin}"),
            (false, Origin::Default) => format!("  # {}", setting.help),
            (false, _) => String::new(),
        };
        style::line(&format!("{key} = {value:?}{comment}"))?;
    }
    Ok(())
}
