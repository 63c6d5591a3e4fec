//! Networks: an address, or all addresses with a common prefix.

use std::net::IpAddr;

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
