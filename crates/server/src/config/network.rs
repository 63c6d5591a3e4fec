//! Networks: an address, or all addresses with a common prefix. Addresses to listen on.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// An address to listen on, with a port (`127.0.0.1:4766`) or with several (`127.0.0.1:4766-4769`): of these, a server
/// takes the first that is free. So several servers can have one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    first: SocketAddr,
    last_port: u16,
}

impl ListenAddress {
    /// Parses one. The name `localhost` is 127.0.0.1.
    pub fn of(text: &str) -> Option<Self> {
        let local = text.strip_prefix("localhost:");
        let local = local.map(|ports| format!("127.0.0.1:{ports}"));
        let text = local.as_deref().unwrap_or(text);
        let (address, last_port) = match text.rsplit_once('-') {
            Some((address, last_port)) => (address, Some(last_port.parse().ok()?)),
            None => (text, None),
        };
        let first: SocketAddr = address.parse().ok()?;
        let last_port = last_port.unwrap_or(first.port());
        (last_port >= first.port()).then_some(Self { first, last_port })
    }

    /// Its IP address.
    pub fn ip(&self) -> IpAddr {
        self.first.ip()
    }

    /// The addresses, in the order in which a server tries them.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let ip = self.first.ip();
        (self.first.port()..=self.last_port).map(move |port| SocketAddr::new(ip, port))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        match self.last_port > self.first.port() {
            true => write!(f, "-{}", self.last_port),
            false => Ok(()),
        }
    }
}

/// An address (`10.0.0.7`) or a network (`10.0.0.0/8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Parses one.
    pub fn of(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    /// Whether it contains an address; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let apart = u32::from(own) ^ u32::from(other);
                apart.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let apart = u128::from(own) ^ u128::from(other);
                apart.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_port_or_several() {
        let tried = |text: &str| -> Vec<String> {
            let address = ListenAddress::of(text).unwrap();
            assert_eq!(address.to_string(), text.replace("localhost", "127.0.0.1"));
            address.addresses().map(|one| one.to_string()).collect()
        };
        assert_eq!(tried("127.0.0.1:4766"), ["127.0.0.1:4766"]);
        assert_eq!(tried("[::1]:1-3"), ["[::1]:1", "[::1]:2", "[::1]:3"]);
        assert_eq!(tried("localhost:7687-7688").len(), 2);
        assert_eq!(tried("127.0.0.1:65534-65535").len(), 2);
        for wrong in [
            "",
            "here",
            "127.0.0.1",
            "127.0.0.1:2-1",
            "127.0.0.1:1-x",
            "1-2",
            "[::1]:1-65536",
        ] {
            assert_eq!(ListenAddress::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let holds = |network: &str, address: &str| {
            Network::of(network)
                .unwrap()
                .holds(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.7", "10.0.0.7") && !holds("10.0.0.7", "10.0.0.6"));
        assert!(holds("0.0.0.0/0", "203.0.113.9") && !holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.0.0.1"));
        for wrong in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/x", "::/129", "proxy"] {
            assert_eq!(Network::of(wrong), None, "{wrong}");
        }
    }
}
