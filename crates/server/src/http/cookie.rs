//! Logins of browsers: the token in a cookie that scripts cannot read, and what a page shows beside it.
//!
//! A cookie comes with every request that a browser sends here, whoever's page led to it. So it counts only together with
//! `Isomer-Csrf`, which is told to those who can read an answer of this server, and which no form or image can send.
//! (Browsers also keep the cookie back from requests of other sites, `SameSite=Strict`, and such requests are refused by
//! their `Origin`; none of the three is relied on alone.)

use axum::http::{HeaderMap, header};

use super::call::Call;
use crate::{
    Result, ServerError,
    access::password::{digest_of, equal, hex},
};

/// The field of the head that a page shows beside its cookie.
const FIELD: &str = "isomer-csrf";

/// Cookies do not know ports: each server on a machine has one of its own name.
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

/// The token in the cookie of a request; nothing where two are shown.
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

/// The line that sets the cookie. It ends with the browser, or with the login.
pub fn begun(headers: &HeaderMap, token: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!(
        "{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}",
        name(headers)
    )
}

/// The line that takes it away.
pub fn ended(headers: &HeaderMap) -> String {
    format!(
        "{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0",
        name(headers)
    )
}

/// What a page shows beside a cookie with this token.
pub fn csrf(token: &str) -> String {
    hex(&digest_of(&format!("isomer csrf {token}")))
}

/// Refuses a request with a cookie and without what only a page of this server knows. That page asks `/v1/me` for it.
pub fn check(call: &Call, token: &str) -> Result<String> {
    let csrf = csrf(token);
    let site = call.header("sec-fetch-site")?.unwrap_or("same-origin");
    let own = matches!(site, "same-origin" | "none");
    let asks = call.route.method == "GET" && call.route.path == "/v1/me";
    let shown = call.header(FIELD)?.unwrap_or_default();
    if own && (asks || equal(&digest_of(&csrf), &digest_of(shown))) {
        return Ok(csrf);
    }
    Err(ServerError::Denied(
        "a request with a cookie must show `Isomer-Csrf`, which GET /v1/me tells: programs send `Authorization: Bearer TOKEN`"
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
    fn a_cookie_is_found_among_others_and_none_where_there_are_two() {
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
    fn a_cookie_is_closed_to_scripts_and_to_other_sites() {
        let line = begun(&asked(&[]), "isomer_1_2", true);
        assert_eq!(
            line,
            "isomer_session_4766=isomer_1_2; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(!begun(&asked(&[]), "t", false).contains("Secure"));
        let mut headers = asked(&[]);
        headers.insert(header::HOST, HeaderValue::from_static("x:1;Domain=y"));
        assert!(begun(&headers, "t", false).starts_with("isomer_session_default="));
        assert_ne!(csrf("a"), csrf("b"));
    }
}
