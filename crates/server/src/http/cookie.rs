//! Browser logins: the token in a cookie that scripts cannot read, and the CSRF token.
//!
//! Browsers send a cookie with every request to this server, whichever page caused it. So it is accepted only
//! together with `Isomer-Csrf`, whose value is available only to clients that can read an answer of this server, and
//! which no form or image can send. (Browsers also withhold the cookie from requests of other sites,
//! `SameSite=Strict`, and such requests are refused by their `Origin`; none of the three is relied on alone.)

use axum::http::{HeaderMap, header};

use super::call::Call;
use crate::{
    Result, ServerError,
    access::password::{digest_of, equal, hex},
};

/// Header field of the CSRF token.
const FIELD: &str = "isomer-csrf";

/// Cookies are shared by all ports of a host: each server on a machine uses its own name.
fn name(headers: &HeaderMap) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    let digits = port.filter(|port| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()));
    format!("isomer_session_{}", digits.unwrap_or("default"))
}

/// The token in the cookie of a request; `None` if there are two.
pub fn token(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut found = cookies
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(known, _)| *known == name)
        .map(|(_, token)| token);
    let token = found.next()?;
    (found.next().is_none() && !token.is_empty()).then_some(token)
}

/// The header that sets the cookie. It lasts as long as the browser session or the login.
pub fn set_header(headers: &HeaderMap, token: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!(
        "{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}",
        name(headers)
    )
}

/// The header that deletes the cookie.
pub fn delete_header(headers: &HeaderMap) -> String {
    format!(
        "{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0",
        name(headers)
    )
}

/// The CSRF token for a login token.
pub fn csrf(token: &str) -> String {
    hex(&digest_of(&format!("isomer csrf {token}")))
}

/// Refuses a request with a cookie but without the CSRF token, which only a page of this server can know. That page
/// requests it from `/v1/me`.
pub fn check(call: &Call, token: &str) -> Result<String> {
    let csrf = csrf(token);
    let site = call.header("sec-fetch-site")?.unwrap_or("same-origin");
    let own = matches!(site, "same-origin" | "none");
    let asks = call.route.method == "GET" && call.route.path == "/v1/me";
    let credentials = call.header(FIELD)?.unwrap_or_default();
    if own && (asks || equal(&digest_of(&csrf), &digest_of(credentials))) {
        return Ok(csrf);
    }
    Err(ServerError::Denied(
        "a request with a cookie must send `Isomer-Csrf`, which GET /v1/me returns: programs send `Authorization: Bearer TOKEN`"
            .into(),
    ))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asked(cookies: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:4766"));
        for cookie in cookies {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_among_others_and_refused_if_repeated() {
        let found = |cookies: &[&'static str]| token(&asked(cookies)).map(str::to_owned);
        assert_eq!(found(&[]), None);
        assert_eq!(
            found(&["a=b; isomer_session_4766=t; c"]).as_deref(),
            Some("t")
        );
        assert_eq!(found(&["isomer_session_4767=t"]), None);
        assert_eq!(found(&["isomer_session_4766="]), None);
        assert_eq!(
            found(&["isomer_session_4766=a", "isomer_session_4766=b"]),
            None
        );
    }

    #[test]
    fn a_cookie_is_hidden_from_scripts_and_other_sites() {
        let line = set_header(&asked(&[]), "isomer_1_2", true);
        assert_eq!(
            line,
            "isomer_session_4766=isomer_1_2; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(!set_header(&asked(&[]), "t", false).contains("Secure"));
        let mut headers = asked(&[]);
        headers.insert(header::HOST, HeaderValue::from_static("x:1;Domain=y"));
        assert!(set_header(&headers, "t", false).starts_with("isomer_session_default="));
        assert_ne!(csrf("a"), csrf("b"));
    }
}
