//! The names of hosts under which browsers may ask for this server.

use std::net::IpAddr;

use crate::config::Config;

/// Whether a host, with or without a port, is one of this server's: this machine, the address that it listens on, or
/// one of the setting `hosts`.
pub(crate) fn is_own_host(config: &Config, host: &str) -> bool {
    let name = host_name(host).to_ascii_lowercase();
    matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]")
        || name == address_name(config.listen.ip())
        || config.hosts.contains(&name)
}

/// A host without its port.
pub(crate) fn host_name(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.split(':').next().unwrap_or_default()
}

fn address_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
