//! Trusted proxies: the client address of requests through them, and whether the client uses TLS.
//!
//! Every client can send `X-Forwarded-For` and `X-Forwarded-Proto`. They are used only if the connection comes from
//! one of `trusted_proxies`; of several addresses, the last one that is not a trusted proxy counts: those before it
//! are supplied by the client.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

use crate::config::Network;

/// Origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address of the client.
    pub address: IpAddr,
    /// Whether the client used TLS to the proxy.
    pub over_tls: bool,
}

impl Origin {
    /// Origin of a request over a connection from `peer`.
    pub fn of(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> Self {
        let direct = Self {
            address: peer,
            over_tls: false,
        };
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.holds(address));
        if !is_trusted(peer) {
            return direct;
        }
        let mut address = peer;
        // Number of trusted proxies that it passed through, except the last one.
        let mut proxies = 0;
        for text in last_of(headers, "x-forwarded-for") {
            // An invalid entry was not written by a trusted proxy, nor was anything before it.
            let Some(named) = address_of(text) else { break };
            address = named;
            if !is_trusted(named) {
                break;
            }
            proxies += 1;
        }
        // Each proxy appends the scheme of its own connection, or keeps what the first one wrote, the only one that
        // is connected to the client.
        let schemes: Vec<_> = last_of(headers, "x-forwarded-proto").collect();
        let scheme = schemes.get(proxies).or(schemes.last());
        let over_tls = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        Self { address, over_tls }
    }
}

/// The entries of a list, which may be in several fields, from the last one on.
fn last_of<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let fields: Vec<_> = headers.get_all(name).iter().collect();
    fields.into_iter().rev().flat_map(|field| {
        field
            .to_str()
            .unwrap_or_default()
            .rsplit(',')
            .map(str::trim)
    })
}

/// Parses an address, which may have a port or brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse();
    let address = address.or_else(|_| text.parse::<SocketAddr>().map(|with_port| with_port.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted: Vec<Network> = ["10.0.0.0/8", "::1"]
            .iter()
            .map(|text| Network::of(text).unwrap())
            .collect();
        let origin = |peer: &str, fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                );
            }
            let origin = Origin::of(peer.parse().unwrap(), &headers, &trusted);
            (origin.address.to_string(), origin.over_tls)
        };
        let (by, with) = ("x-forwarded-for", "x-forwarded-proto");
        let case = |peer, fields: &[_], address: &str, over_tls| {
            assert_eq!(
                origin(peer, fields),
                (address.to_owned(), over_tls),
                "{peer} {fields:?}"
            );
        };
        case(
            "192.0.2.1",
            &[(by, "198.51.100.7"), (with, "https")],
            "192.0.2.1",
            false,
        );
        case("10.1.2.3", &[], "10.1.2.3", false);
        // Through two proxies: the scheme of the first one counts.
        let through_two = (by, "198.51.100.7, 10.9.9.9");
        case(
            "10.1.2.3",
            &[through_two, (with, "https, http")],
            "198.51.100.7",
            true,
        );
        case(
            "10.1.2.3",
            &[through_two, (with, "http, https")],
            "198.51.100.7",
            false,
        );
        case(
            "10.1.2.3",
            &[through_two, (with, "https")],
            "198.51.100.7",
            true,
        );
        // An entry of the client comes before that.
        case(
            "10.1.2.3",
            &[(by, "192.0.2.9, 198.51.100.7"), (with, "https, http")],
            "198.51.100.7",
            false,
        );
        case(
            "10.1.2.3",
            &[(by, "198.51.100.7"), (with, "https")],
            "198.51.100.7",
            true,
        );
        case(
            "::1",
            &[(by, "198.51.100.7"), (with, "http")],
            "198.51.100.7",
            false,
        );
        // An entry that the client supplied is not what the proxy saw.
        case(
            "10.1.2.3",
            &[(by, "127.0.0.1, 198.51.100.7"), (with, "https, http")],
            "198.51.100.7",
            false,
        );
        case(
            "10.1.2.3",
            &[(by, "127.0.0.1"), (by, "198.51.100.7, 10.9.9.9")],
            "198.51.100.7",
            false,
        );
        case(
            "10.1.2.3",
            &[(by, "192.0.2.9, rubbish, 10.9.9.9")],
            "10.9.9.9",
            false,
        );
        case("10.1.2.3", &[(by, "")], "10.1.2.3", false);
        case(
            "10.1.2.3",
            &[(by, "[2001:db8::1]:4711")],
            "2001:db8::1",
            false,
        );
        case(
            "10.1.2.3",
            &[(by, "::ffff:198.51.100.7")],
            "198.51.100.7",
            false,
        );
        case(
            "::ffff:10.1.2.3",
            &[(by, "198.51.100.7:80")],
            "198.51.100.7",
            false,
        );
    }
}
