//! Authentication and authorisation.

use isomer_server::{
    access::Role,
    http::{
        route::{BodyOf, Route, RouteNeeds},
        routes::ROUTES,
    },
};

use isomer_testkit::poll;

use crate::support::{Client, PASSWORD, Server};

/// The path of a route in a database, with values for all its parameters.
fn path(route: &Route, database: &str) -> String {
    let mut path = route.path.replace("{db}", database);
    for (place, value) in [
        ("{bucket}", "b"),
        ("{key}", "k"),
        ("{sequence}", "s"),
        ("{label}", "L"),
        ("{id}", "7"),
        ("{name}", "n"),
        ("{field}", "f"),
        ("{datatype}", "counters"),
        ("{user}", "eve"),
        ("{file}", "f"),
        ("{backup}", "nightly"),
        ("{transaction}", "00112233445566778899aabbccddeeff"),
    ] {
        path = path.replace(place, value);
    }
    assert!(
        !path.contains('{'),
        "{path}: a parameter without a value in this test"
    );
    if route.tag == "changes" && route.method == "GET" {
        // A feed has no end: with this it is an error.
        return format!("{path}?from=nothing");
    }
    let needed: Vec<String> = route
        .params()
        .filter(|(_, needed)| *needed)
        .map(|(name, _)| format!("{name}=X"))
        .collect();
    if needed.is_empty() {
        path
    } else {
        format!("{path}?{}", needed.join("&"))
    }
}

fn call(server: &Server, token: &str, route: &Route, database: &str) -> (u16, String) {
    let client = server.client(token);
    let answer = match route.body {
        BodyOf::Nothing => client.send(route.method, &path(route, database), &[], b""),
        // An invalid body for every route: rights are checked before bodies.
        _ => client.json(route.method, &path(route, database), "{\"nonsense\": true}"),
    };
    let kind = answer.kind_or_none();
    (answer.status, kind)
}

impl crate::support::Answer {
    fn kind_or_none(&self) -> String {
        serde_json::from_slice::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|value| value["error"]["kind"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// Every route and every role, on the role's database and on another one: what is not allowed is refused before
/// anything is read or revealed, and no route but public ones answers without a token.
#[test]
fn every_route_is_refused_to_every_role_without_the_right() {
    let server = Server::with(&[("limits.login_failures", "100000")]);
    let roles = [
        None,
        Some(Role::Reader),
        Some(Role::Editor),
        Some(Role::Schema),
        Some(Role::Replica),
        Some(Role::Admin),
    ];
    let everywhere: Vec<(Role, String)> = Role::ALL
        .into_iter()
        .map(|role| {
            (
                role,
                server.user(
                    &format!("all-{}", role.name()),
                    &format!("{{\"*\":\"{}\"}}", role.name()),
                ),
            )
        })
        .collect();
    let mut tried = 0;
    for role in roles {
        let (name, rights) = match role {
            None => ("none".to_owned(), "{}".to_owned()),
            Some(role) => (
                format!("only-{}", role.name()),
                format!("{{\"people\":\"{}\"}}", role.name()),
            ),
        };
        let mut token = server.user(&name, &rights);
        for route in ROUTES {
            let context = format!("{} {} as {name}", route.method, route.path);
            let (own, own_kind) = call(&server, &token, route, "people");
            if route.path == "/v1/logout" {
                token = server.login(&name);
            }
            match route.needs {
                RouteNeeds::Public => assert_ne!(own_kind, "Denied", "{context}"),
                RouteNeeds::Server(None) => assert_ne!(own, 401, "{context}"),
                RouteNeeds::Server(Some(_)) => {
                    assert_eq!((own, own_kind.as_str()), (403, "Denied"), "{context}")
                }
                RouteNeeds::Database(need) => {
                    let allowed = role >= Some(need);
                    assert_eq!(
                        own_kind == "Denied",
                        !allowed,
                        "{context}: {own} {own_kind}"
                    );
                    if !allowed {
                        assert_eq!(own, 403, "{context}");
                    }
                    // Another database, and one that does not exist: the same answer.
                    for other in ["other", "nowhere", "..%2Fpeople", "people%00", "*"] {
                        let (status, kind) = call(&server, &token, route, other);
                        assert_eq!(
                            (status, kind.as_str()),
                            (403, "Denied"),
                            "{context} on {other}"
                        );
                    }
                }
            }
            if route.needs != RouteNeeds::Public {
                for anonymous in ["", "isomer_00_00", "x"] {
                    let (status, kind) = call(&server, anonymous, route, "people");
                    assert_eq!(
                        (status, kind.as_str()),
                        (401, "Unauthenticated"),
                        "{context} with the token `{anonymous}`"
                    );
                }
            }
            tried += 1;
        }
    }
    for route in ROUTES {
        if let RouteNeeds::Server(Some(need)) = route.needs {
            for (role, token) in &everywhere {
                let (_, kind) = call(&server, token, route, "people");
                assert_eq!(
                    kind == "Denied",
                    *role < need,
                    "{} {} as {}",
                    route.method,
                    route.path,
                    role.name()
                );
            }
        }
    }
    assert_eq!(tried, ROUTES.len() * roles.len());
    // None of the refused requests had an effect.
    assert_eq!(server.admin().get("/v1/databases/other").status, 200);
}

/// A right on a database does not extend to others with the same name prefix, nor to their backups.
#[test]
fn databases_with_a_common_name_prefix_are_different() {
    let server = Server::new();
    for name in ["shop", "shop-other", "sho"] {
        let body = format!("{{\"database\":\"{name}\"}}");
        let made = server.admin().json("POST", "/v1/databases", &body);
        assert_eq!(made.status, 201, "{made:?}");
        server.admin().rows(name, "CREATE (:Own)");
    }
    let body = "{\"backup\":\"nightly\"}";
    let secret = "/v1/databases/shop-other/backups";
    let made = server.admin().json("POST", secret, body);
    assert!(matches!(made.status, 201 | 422), "{made:?}");
    let ann = server.client(&server.user("ann", "{\"shop\":\"admin\"}"));
    assert_eq!(ann.get("/v1/databases/shop").status, 200);
    for name in [
        "shop-other",
        "sho",
        "shop%2f..%2fshop-other",
        "shop-other%00",
        "./shop-other",
        "shop/../shop-other",
    ] {
        let answer = ann.get(&format!("/v1/databases/{name}"));
        assert!(matches!(answer.status, 403 | 404), "{name}: {answer:?}");
        let query = format!("/v1/databases/{name}/query");
        let answer = ann.json("POST", &query, "{\"query\":\"MATCH (o:Own) RETURN o\"}");
        assert!(matches!(answer.status, 403 | 404), "{name}: {answer:?}");
    }
    for backup in ["..%2fshop-other%2fnightly", "..", ".%2f..%2fshop-other"] {
        let path = format!("/v1/databases/shop/backups/{backup}");
        let answer = ann.delete(&path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
    let folder = server.folder.path().join("backups/shop-other/nightly");
    assert_eq!(folder.exists(), made.status == 201);
}

/// The class of a statement is determined by its plan, not by its route.
#[test]
fn a_statement_requires_the_role_of_its_class() {
    let server = Server::new();
    let statements = [
        (Role::Reader, "MATCH (n) RETURN count(n)"),
        (Role::Reader, "SHOW INDEXES"),
        (Role::Editor, "CREATE (:A)"),
        (Role::Editor, "MATCH (n:A) SET n.x = 1"),
        (Role::Editor, "CALL kv.put('b', 'k', 1)"),
        (Role::Editor, "EXPLAIN CREATE (:A)"),
        (Role::Editor, "FOREACH (i IN [1] | MERGE (:C))"),
        (Role::Schema, "CREATE INDEX a_x FOR (n:A) ON (n.x)"),
        (Role::Schema, "DROP INDEX a_x"),
        (Role::Admin, "SHOW QUERIES"),
        (Role::Admin, "KILL QUERY 999999"),
    ];
    let tokens: Vec<(Role, String)> = Role::ALL
        .into_iter()
        .map(|role| {
            (
                role,
                server.user(
                    &format!("only-{}", role.name()),
                    &format!("{{\"people\":\"{}\"}}", role.name()),
                ),
            )
        })
        .collect();
    for (need, statement) in statements {
        let body = serde_json::json!({ "query": statement }).to_string();
        for (role, token) in &tokens {
            let client = server.client(token);
            let lines = client.with("Accept", "application/jsonl");
            let open = client.post("/v1/databases/people/tx").value()["transaction"]
                .as_str()
                .unwrap()
                .to_owned();
            let answers = [
                client.json("POST", "/v1/databases/people/query", &body),
                lines.json("POST", "/v1/databases/people/query", &body),
                client.json(
                    "POST",
                    &format!("/v1/databases/people/tx/{open}/query"),
                    &body,
                ),
            ];
            for answer in answers {
                let denied = answer.status == 403 && answer.text().contains("Denied");
                assert_eq!(
                    denied,
                    *role < need,
                    "{statement} as {}: {answer:?}",
                    role.name()
                );
            }
            client.delete(&format!("/v1/databases/people/tx/{open}"));
        }
    }
}

#[test]
fn a_transaction_cannot_be_used_by_another_user() {
    let server = Server::new();
    let ada = server.client(&server.user("ada", "{\"people\":\"editor\"}"));
    let bob = server.client(&server.user("bob", "{\"people\":\"editor\",\"other\":\"editor\"}"));
    let open = ada.post("/v1/databases/people/tx").value()["transaction"]
        .as_str()
        .unwrap()
        .to_owned();
    let query = "{\"query\":\"RETURN 1\"}";
    let path = |database: &str| format!("/v1/databases/{database}/tx/{open}/query");
    assert_eq!(bob.json("POST", &path("people"), query).status, 404);
    assert_eq!(bob.json("POST", &path("other"), query).status, 404);
    assert_eq!(ada.json("POST", &path("other"), query).status, 403);
    let within = bob.with("Isomer-Transaction", &open);
    assert_eq!(within.get("/v1/databases/people/buckets").status, 404);
    assert_eq!(ada.json("POST", &path("people"), query).status, 200);
}

/// Writes are committed only if the right to them still exists.
#[test]
fn writes_are_not_committed_after_the_right_was_revoked() {
    let server = Server::new();
    let admin = server.admin();
    let ada = server.client(&server.user("ada", "{\"people\":\"editor\"}"));
    let token = ada.json("POST", "/v1/tokens", "{\"scope\":{\"people\":\"reader\"}}");
    let narrow = server.client(token.value()["token"].as_str().unwrap());
    let tx = "/v1/databases/people/tx";
    let begin = |body: &str| {
        let open = ada.json("POST", tx, body).value()["transaction"].clone();
        open.as_str().unwrap().to_owned()
    };
    let create = "{\"query\":\"CREATE (:Late)\"}";
    let written = begin("{}");
    let by_query = ada.json("POST", &format!("{tx}/{written}/query"), create);
    assert_eq!(by_query.status, 200);
    let put = begin("{}");
    let by_route = ada.with("Isomer-Transaction", &put).json(
        "PUT",
        "/v1/databases/people/buckets/b/keys/k",
        "1",
    );
    assert_eq!(by_route.status, 204);
    let read = begin("{\"read_only\":true}");
    let unused = begin("{}");
    let refused = narrow.post(&format!("{tx}/{written}/commit"));
    assert_eq!((refused.status, refused.kind().as_str()), (403, "Denied"));
    admin.json("PUT", "/v1/users/ada/roles", "{\"people\":\"reader\"}");
    for id in [&written, &put] {
        let refused = ada.post(&format!("{tx}/{id}/commit"));
        assert_eq!((refused.status, refused.kind().as_str()), (403, "Denied"));
    }
    let found = admin.rows("people", "MATCH (l:Late) RETURN count(l)");
    assert_eq!(found, serde_json::json!([[0]]));
    for id in [&read, &unused] {
        assert_eq!(ada.post(&format!("{tx}/{id}/commit")).status, 200);
    }
    assert_eq!(ada.delete(&format!("{tx}/{written}")).status, 204);
    admin.json("PUT", "/v1/users/ada/roles", "{\"people\":\"editor\"}");
    assert_eq!(ada.post(&format!("{tx}/{put}/commit")).status, 200);
}

/// A recreated database does not have the transactions of the previous one.
#[test]
fn a_transaction_ends_with_its_database() {
    let server = Server::new();
    let admin = server.admin();
    let shop = "{\"database\":\"shop\"}";
    assert_eq!(admin.json("POST", "/v1/databases", shop).status, 201);
    let tx = "/v1/databases/shop/tx";
    let open = admin.json("POST", tx, "{}").value()["transaction"].clone();
    let own = format!("{tx}/{}", open.as_str().unwrap());
    assert_eq!(admin.get(&own).status, 200);
    assert_eq!(admin.delete("/v1/databases/shop").status, 204);
    assert_eq!(admin.json("POST", "/v1/databases", shop).status, 201);
    let query = "{\"query\":\"RETURN 1\"}";
    for answer in [
        admin.get(&own),
        admin.json("POST", &format!("{own}/query"), query),
        admin.post(&format!("{own}/commit")),
    ] {
        assert_eq!((answer.status, answer.kind().as_str()), (404, "NotFound"));
    }
}

/// Very large lifetimes do not overflow.
#[test]
fn the_lifetime_of_a_token_may_exceed_the_range_of_time() {
    let server = Server::new();
    let body = "{\"expires_in_ms\":9223372036854775807}";
    let token = server.admin().json("POST", "/v1/tokens", body);
    assert_eq!(token.status, 201, "{token:?}");
    assert!(token.value()["about"]["expires_ms"].as_i64().unwrap() > 0);
}

#[test]
fn a_token_is_limited_to_its_scope_and_cannot_create_another() {
    let server = Server::new();
    let ada = server.client(&server.user("ada", "{\"people\":\"editor\"}"));
    let made = ada.json(
        "POST",
        "/v1/tokens",
        "{\"name\":\"report\",\"scope\":{\"people\":\"reader\"}}",
    );
    assert_eq!(made.status, 201, "{made:?}");
    let report = server.client(made.value()["token"].as_str().unwrap());
    assert_eq!(report.rows("people", "RETURN 1")[0][0], 1);
    let write = "{\"query\":\"CREATE (:A)\"}";
    assert_eq!(
        report
            .json("POST", "/v1/databases/people/query", write)
            .status,
        403
    );
    assert_eq!(report.json("POST", "/v1/tokens", "{}").status, 403);
    for beyond in [
        "{\"people\":\"admin\"}",
        "{\"other\":\"reader\"}",
        "{\"*\":\"reader\"}",
    ] {
        let body = format!("{{\"scope\":{beyond}}}");
        assert_eq!(
            ada.json("POST", "/v1/tokens", &body).status,
            403,
            "{beyond}"
        );
    }
    // The token is always limited by the user's current rights.
    server.admin().json("PUT", "/v1/users/ada/roles", "{}");
    assert_eq!(
        report
            .json(
                "POST",
                "/v1/databases/people/query",
                "{\"query\":\"RETURN 1\"}"
            )
            .status,
        403
    );
    assert!(!made.text().is_empty());
    let listed = server.admin().get("/v1/tokens?all").text().to_owned();
    let secret = made.value()["token"]
        .as_str()
        .unwrap()
        .rsplit('_')
        .next()
        .unwrap()
        .to_owned();
    assert!(listed.contains("report") && !listed.contains(&secret));
}

#[test]
fn revoked_and_expired_tokens_are_refused_at_once() {
    let server = Server::new();
    let token = server.user("ada", "{\"people\":\"reader\"}");
    let ada = server.client(&token);
    let short = ada
        .json("POST", "/v1/tokens", "{\"expires_in_ms\":30}")
        .value();
    let short = server.client(short["token"].as_str().unwrap());
    assert_eq!(short.get("/v1/me").status, 200);
    poll::until("the token expires", || short.get("/v1/me").status == 401);
    let made = ada.json("POST", "/v1/tokens", "{}").value();
    let revoked = server.client(made["token"].as_str().unwrap());
    assert_eq!(revoked.get("/v1/me").status, 200);
    assert_eq!(
        ada.delete(&format!(
            "/v1/tokens/{}",
            made["about"]["id"].as_str().unwrap()
        ))
        .status,
        204
    );
    assert_eq!(revoked.get("/v1/me").status, 401);
    assert_eq!(ada.post("/v1/logout").status, 204);
    assert_eq!(ada.get("/v1/me").status, 401);
}

#[test]
fn guesses_are_limited_and_get_the_same_answer() {
    let server = Server::with(&[("limits.login_failures", "5")]);
    let anonymous = server.client("");
    let wrong = anonymous.json(
        "POST",
        "/v1/login",
        "{\"user\":\"admin\",\"password\":\"wrong password\"}",
    );
    let unknown = anonymous.json(
        "POST",
        "/v1/login",
        "{\"user\":\"eve\",\"password\":\"wrong password\"}",
    );
    assert_eq!((wrong.status, unknown.status), (401, 401));
    assert_eq!(
        wrong.body, unknown.body,
        "known and unknown users get the same answer"
    );
    let mut statuses = Vec::new();
    for number in 0..6 {
        let body = format!("{{\"user\":\"admin\",\"password\":\"guess number {number}\"}}");
        statuses.push(anonymous.json("POST", "/v1/login", &body).status);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429, 429]);
    let right = format!("{{\"user\":\"admin\",\"password\":\"{PASSWORD}\"}}");
    let held_up = anonymous.json("POST", "/v1/login", &right);
    assert_eq!(
        held_up.status, 429,
        "the right password gets the same answer, too"
    );
    assert!(held_up.header("retry-after").is_some());
    // A valid token is not affected by guesses.
    assert_eq!(server.admin().get("/v1/me").status, 200);
    // Guessed tokens are limited as well.
    let guess = server.client(
        "isomer_0000000000000000_0000000000000000000000000000000000000000000000000000000000000000",
    );
    assert_eq!(guess.get("/v1/me").status, 429);
}

#[test]
fn malformed_tokens_are_refused() {
    let server = Server::with(&[("limits.login_failures", "1000")]);
    for token in [
        "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhZG1pbiJ9.",
        "null",
        "undefined",
        "isomer_",
        "isomer__",
        &server.admin[..server.admin.len() - 1],
        &format!("{}0", server.admin),
    ] {
        assert_eq!(server.client(token).get("/v1/me").status, 401, "{token}");
    }
    let anonymous = server.client("");
    for header in [
        format!("Basic {}", server.admin),
        server.admin.clone(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
    ] {
        assert_eq!(
            anonymous
                .with("Authorization", &header)
                .get("/v1/me")
                .status,
            401,
            "{header}"
        );
    }
    let twice = server
        .admin()
        .with("Authorization", &format!("Bearer {}", server.admin));
    assert_eq!(twice.get("/v1/me").status, 401, "two tokens are refused");
}

#[test]
fn the_first_administrator_is_created_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = isomer_server::config::Layers::new();
    layers.add_flag("listen", "127.0.0.1:0").unwrap();
    layers
        .add_flag("system", folder.path().join("system").display().to_string())
        .unwrap();
    let options = isomer_server::ServeOptions::new(layers.config().unwrap());
    let running = isomer_server::start(options.clone()).unwrap();
    let token = running.setup_token().unwrap().to_owned();
    let post = |address, token: &str| {
        let body =
            format!("{{\"token\":\"{token}\",\"user\":\"ada\",\"password\":\"{PASSWORD}\"}}");
        Client::at(address).json("POST", "/v1/setup", &body)
    };
    assert_eq!(post(running.address(), "isomer_setup_00").status, 401);
    let made = post(running.address(), &token);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(post(running.address(), &token).status, 401);
    drop(running);
    let again = isomer_server::start(options).unwrap();
    assert!(again.setup_token().is_none(), "an administrator exists");
}

#[test]
fn the_audit_log_records_events_without_contents() {
    let server = Server::new();
    let ada = server.client(&server.user("ada", "{\"people\":\"editor\"}"));
    ada.rows("people", "CREATE (:Secret {word: 'xyzzy'})");
    ada.json(
        "POST",
        "/v1/databases/other/query",
        "{\"query\":\"RETURN 'plugh'\"}",
    );
    let log = std::fs::read_to_string(server.folder.path().join("system/audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let denied = lines.iter().find(|line| line["status"] == 403).unwrap();
    assert_eq!(denied["user"], "ada");
    assert_eq!(denied["database"], "other");
    assert_eq!(denied["action"], "POST /v1/databases/{db}/query");
    assert_eq!(denied["from"], "127.0.0.1");
    assert!(
        lines
            .iter()
            .any(|line| line["action"] == "POST /v1/users" && line["user"] == "admin")
    );
    for secret in [
        "xyzzy",
        "plugh",
        PASSWORD,
        server.admin.rsplit('_').next().unwrap(),
    ] {
        assert!(!log.contains(secret), "{secret}");
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(server.folder.path().join("system/audit.jsonl"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The lines of the audit log.
fn audit(server: &Server) -> Vec<serde_json::Value> {
    let log = std::fs::read_to_string(server.folder.path().join("system/audit.jsonl")).unwrap();
    let lines = log.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The class of every statement is recorded by its plan, over every interface.
#[test]
fn statements_are_audited_by_their_class() {
    let server = Server::new();
    let admin = server.admin();
    let (one, tx) = ("/v1/databases/people/query", "/v1/databases/people/tx");
    let count = || audit(&server).len();
    let last = || audit(&server).pop().unwrap();
    let run = |client: &Client, path: &str, text: &str| {
        client.json(
            "POST",
            path,
            &serde_json::json!({ "query": text }).to_string(),
        )
    };
    let lines = admin.with("Accept", "application/jsonl");
    let once = admin.with("Idempotency-Key", "once");
    let before = count();
    assert_eq!(run(&admin, one, "MATCH (n) RETURN n").status, 200);
    assert_eq!(run(&lines, one, "MATCH (n) RETURN n").status, 200);
    assert_eq!(count(), before, "reads are not recorded at this level");
    for (client, text, class) in [
        (&admin, "CREATE (:A {n: 1})", "write"),
        (&lines, "CREATE (:A {n: 2})", "write"),
        (&once, "CREATE (:A {n: 3})", "write"),
        (&admin, "MATCH (a:A {n: 3}) DETACH DELETE a", "write"),
        (&admin, "CREATE INDEX FOR (a:A) ON (a.n)", "schema"),
    ] {
        let before = count();
        assert_eq!(run(client, one, text).status, 200, "{text}");
        assert_eq!(count(), before + 1, "{text}");
        let line = last();
        assert_eq!(
            (&line["class"], &line["status"], &line["user"]),
            (&class.into(), &200.into(), &"admin".into()),
            "{text}"
        );
    }
    // Failures are recorded, too, with the class that the statement would have had.
    assert_eq!(run(&admin, one, "CREATE (:A {n: 1 / 0})").status, 400);
    let line = last();
    assert_eq!(line["class"], "write");
    assert_eq!(line["error"], "Invalid");
    // In a transaction: each statement, and the commit with the highest class.
    let open = admin.json("POST", tx, "{}").value()["transaction"].clone();
    let own = format!("{tx}/{}", open.as_str().unwrap());
    assert_eq!(
        run(&admin, &format!("{own}/query"), "CREATE (:A)").status,
        200
    );
    assert_eq!(last()["class"], "write");
    assert_eq!(admin.post(&format!("{own}/commit")).status, 200);
    let line = last();
    assert!(line["action"].as_str().unwrap().ends_with("/commit"));
    assert_eq!(line["class"], "write");
    let before = count();
    let open = admin.json("POST", tx, "{}").value()["transaction"].clone();
    let own = format!("{tx}/{}", open.as_str().unwrap());
    assert_eq!(admin.post(&format!("{own}/commit")).status, 200);
    assert_eq!(count(), before, "nothing was written there");
}

#[test]
fn the_audit_log_names_the_user_of_a_login_and_the_target() {
    let server = Server::new();
    let admin = server.admin();
    let last = || audit(&server).pop().unwrap();
    let login = |user: &str, password: &str| {
        let body = serde_json::json!({ "user": user, "password": password });
        server
            .client("")
            .json("POST", "/v1/login", &body.to_string())
    };
    let answer = login("admin", PASSWORD).value();
    let line = last();
    assert_eq!(line["user"], "admin");
    assert_eq!(line["token"], answer["about"]["id"]);
    assert_eq!(login("eve", "wrong").status, 401);
    assert_eq!(last()["user"], "eve");
    assert!(last()["token"].is_null());
    assert_eq!(login("my long password!", "x").status, 401);
    assert!(last()["user"].is_null(), "that is not a valid user name");

    server.user("ada", "{}");
    let about = |line: serde_json::Value| (line["user"].clone(), line["target"].clone());
    let by_admin = |target: &str| ("admin".into(), serde_json::Value::from(target));
    let made = audit(&server);
    let made = made
        .iter()
        .find(|line| line["action"] == "POST /v1/users")
        .unwrap();
    assert_eq!(about(made.clone()), by_admin("ada"));
    admin.json("PUT", "/v1/users/ada/roles", "{\"people\":\"reader\"}");
    assert_eq!(about(last()), by_admin("ada"));
    let token = admin.json("POST", "/v1/tokens", "{}").value();
    let id = token["about"]["id"].as_str().unwrap();
    assert_eq!(about(last()), by_admin(id));
    admin.delete(&format!("/v1/tokens/{id}"));
    assert_eq!(about(last()), by_admin(id));
    admin.json("POST", "/v1/databases", "{\"database\":\"shop\"}");
    assert_eq!(about(last()), by_admin("shop"));
    admin.json(
        "POST",
        "/v1/databases/shop/backups",
        "{\"backup\":\"nightly\"}",
    );
    assert_eq!(about(last()), by_admin("nightly"));
    admin.delete("/v1/databases/shop/backups/nightly");
    assert_eq!(about(last()), by_admin("nightly"));
    admin.delete("/v1/databases/shop");
    assert_eq!(last()["database"], "shop");
    // Ids of nodes are data, which the log must not contain.
    admin.delete("/v1/databases/people/nodes/7");
    assert!(last()["target"].is_null());
}

#[test]
fn the_first_login_is_audited_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = isomer_server::config::Layers::new();
    let system = folder.path().join("system");
    for (key, value) in [
        ("listen", "127.0.0.1:0"),
        ("log.level", "error"),
        ("system", system.to_str().unwrap()),
    ] {
        layers.add_flag(key, value).unwrap();
    }
    let options = isomer_server::ServeOptions::new(layers.config().unwrap());
    let running = isomer_server::start(options).unwrap();
    let body = serde_json::json!({
        "token": running.setup_token().unwrap(), "user": "ada", "password": PASSWORD
    });
    let answer = Client::at(running.address()).json("POST", "/v1/setup", &body.to_string());
    assert_eq!(answer.status, 201, "{answer:?}");
    running.stop().unwrap();
    let log = std::fs::read_to_string(system.join("audit.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(line["user"], "ada");
    assert_eq!(line["token"], answer.value()["about"]["id"]);
}

#[test]
fn without_authentication_cross_origin_requests_are_still_refused() {
    let server = Server::with(&[("without_authentication", "true")]);
    let anonymous = server.client("");
    assert_eq!(anonymous.rows("people", "RETURN 1")[0][0], 1);
    assert_eq!(
        anonymous
            .with("Origin", "http://evil.example")
            .get("/v1/me")
            .status,
        403
    );
    assert_eq!(anonymous.with("Origin", "null").get("/v1/me").status, 403);
    let form = anonymous.send(
        "POST",
        "/v1/databases/people/query",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        b"query=CREATE",
    );
    assert_eq!(form.status, 415);
    let text = anonymous.send(
        "POST",
        "/v1/databases/people/query",
        &[("Content-Type", "text/plain")],
        b"{\"query\":\"CREATE (:A)\"}",
    );
    assert_eq!(text.status, 415);
    for host in [
        "evil.example",
        "evil.example:4766",
        "127.0.0.1.evil.example",
        "",
    ] {
        let request = format!("GET /v1/me HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(
            anonymous.raw(request.as_bytes()).unwrap().status,
            421,
            "{host}"
        );
    }
    let answer = anonymous.get("/v1/me");
    assert!(answer.header("access-control-allow-origin").is_none());
    assert!(
        answer
            .header("content-security-policy")
            .unwrap()
            .contains("frame-ancestors 'none'")
    );
}

/// Behind a proxy that terminates TLS, the cookie is marked as secure; and only a trusted proxy can name the client.
#[test]
fn only_a_trusted_proxy_is_believed() {
    let login = format!("{{\"user\":\"admin\",\"password\":\"{PASSWORD}\",\"cookie\":true}}");
    let wrong = "{\"user\":\"admin\",\"password\":\"wrong\"}";
    for (trusted, is_trusted) in [("127.0.0.0/8", true), ("10.0.0.0/8", false), ("", false)] {
        let server = Server::with(&[("trusted_proxies", trusted), ("limits.login_failures", "3")]);
        let proxied = |client: &str, scheme: &str| {
            server
                .client("")
                .with("X-Forwarded-For", &format!("203.0.113.66, {client}"))
                .with("X-Forwarded-Proto", scheme)
        };
        let cookie = |client: &Client| {
            let answer = client.json("POST", "/v1/login", &login);
            assert_eq!(answer.status, 200, "{answer:?}");
            answer.header("set-cookie").expect("set").to_owned()
        };
        let secure = cookie(&proxied("198.51.100.7", "https")).ends_with("; Secure");
        assert_eq!(secure, is_trusted, "{trusted}");
        assert!(!cookie(&proxied("198.51.100.7", "http")).contains("Secure"));
        assert!(!cookie(&server.client("")).contains("Secure"));
        // Guesses behind the proxy are limited per client; without trust all clients count as one.
        let mut refused = 0;
        for _ in 0..8 {
            let answer = proxied("198.51.100.7", "https").json("POST", "/v1/login", wrong);
            refused += usize::from(answer.status == 429);
        }
        assert!(refused > 0);
        let other = proxied("198.51.100.8", "https").json("POST", "/v1/login", &login);
        assert_eq!(
            other.status,
            if is_trusted { 200 } else { 429 },
            "{trusted}"
        );
        // The 2^64 addresses of an IPv6 customer count as one.
        if is_trusted {
            let guess = |address: &str| proxied(address, "https").json("POST", "/v1/login", wrong);
            let statuses: Vec<u16> = ["::1", "::2", "::3", ":a::4"]
                .iter()
                .map(|rest| guess(&format!("2001:db8:0:7{rest}")).status)
                .collect();
            assert_eq!(statuses, [401, 401, 401, 429]);
            assert_eq!(guess("2001:db8:0:8::1").status, 401);
        }
        let log = std::fs::read_to_string(server.folder.path().join("system/audit.jsonl")).unwrap();
        assert_eq!(log.contains("198.51.100.7"), is_trusted, "{trusted}");
        assert!(!log.contains("203.0.113.66"), "what the client claims");
    }
}

/// The origin of a page shows that it was loaded over TLS, wherever that ends.
#[test]
fn a_page_over_tls_gets_a_cookie_for_tls() {
    let server = Server::with(&[("hosts", "people.example")]);
    let body = format!("{{\"user\":\"admin\",\"password\":\"{PASSWORD}\",\"cookie\":true}}");
    for (scheme, secure) in [("https", true), ("http", false)] {
        let head = format!(
            "POST /v1/login HTTP/1.1\r\nHost: people.example\r\nOrigin: {scheme}://people.example\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = server.client("").raw(head.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            answer.header("set-cookie").unwrap().contains("; Secure"),
            secure
        );
    }
}

/// A browser's login: the cookie is not accepted without the CSRF token, and requests that a form or another site can
/// send are refused.
#[test]
fn a_cookie_alone_is_not_accepted() {
    let server = Server::new();
    let body = format!("{{\"user\":\"admin\",\"password\":\"{PASSWORD}\",\"cookie\":true}}");
    let anonymous = server.client("");
    let answer = anonymous.json("POST", "/v1/login", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.value();
    assert!(body["token"].is_null() && !answer.text().contains("isomer_"));
    let csrf = body["csrf"].as_str().expect("the CSRF token").to_owned();
    let line = answer.header("set-cookie").expect("set").to_owned();
    assert!(
        line.contains("HttpOnly") && line.contains("SameSite=Strict") && line.contains("Path=/")
    );
    let cookie = line.split(';').next().expect("a cookie");

    let browser = anonymous.with("Cookie", cookie);
    assert_eq!(browser.get("/v1/databases").status, 403);
    assert_eq!(
        browser.with("Isomer-Csrf", "x").get("/v1/databases").status,
        403
    );
    let page = browser.with("Isomer-Csrf", &csrf);
    assert_eq!(page.get("/v1/databases").status, 200);
    let form = browser.send(
        "POST",
        "/v1/databases/people/query",
        &[("Content-Type", "text/plain")],
        b"{\"query\":\"CREATE (:Owned)\"}",
    );
    assert_eq!((form.status, form.kind().as_str()), (403, "Denied"));
    // Without the CSRF token it may only request its identity and the CSRF token. Pages of other sites may not.
    let me = browser.get("/v1/me");
    assert_eq!(me.value()["csrf"].as_str(), Some(&*csrf));
    for site in ["cross-site", "same-site"] {
        assert_eq!(
            browser.with("Sec-Fetch-Site", site).get("/v1/me").status,
            403
        );
        assert_eq!(
            page.with("Sec-Fetch-Site", site)
                .get("/v1/databases")
                .status,
            403
        );
    }
    assert_eq!(
        page.with("Origin", "http://localhost:1")
            .get("/v1/databases")
            .status,
        403
    );
    // An explicit token takes precedence over the cookie.
    let reader = server.user("reader", "{\"people\":\"reader\"}");
    let both = server.client(&reader).with("Cookie", cookie);
    assert_eq!(both.get("/v1/me").value()["user"], "reader");
    assert!(both.get("/v1/me").value()["csrf"].is_null());

    let out = page.post("/v1/logout");
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie")
            .expect("ended")
            .contains("Max-Age=0")
    );
    let ended = page.get("/v1/me");
    assert_eq!(ended.status, 401);
    assert!(
        ended
            .header("set-cookie")
            .expect("ended")
            .contains("Max-Age=0")
    );
}

/// The console's page and files are public, cannot be framed, and run only their own scripts.
#[test]
fn the_console_runs_only_its_own_scripts() {
    let server = Server::new();
    let anonymous = server.client("");
    let page = anonymous.get("/");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self';",
        "style-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(rule), "{rule} in {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"));
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(
        page.header("cross-origin-resource-policy"),
        Some("same-origin")
    );
    let text = page.text().to_owned();
    let files: Vec<&str> = text
        .split('"')
        .filter(|part| part.starts_with("/console/"))
        .collect();
    assert!(files.len() >= 2, "{text}");
    for file in files {
        let answer = anonymous.get(file);
        assert_eq!(answer.status, 200, "{file}");
        assert!(
            answer
                .header("cache-control")
                .expect("kept")
                .contains("immutable")
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let packed = anonymous.with("Accept-Encoding", "gzip").get(file);
        assert!(packed.body.len() < answer.body.len() || file.ends_with(".svg"));
    }
    for path in [
        "/console/",
        "/console/nothing.js",
        "/console/..%2FCargo.toml",
        "/console/%2e%2e%2findex.html",
        "/console/index.html/x",
    ] {
        assert_eq!(anonymous.get(path).status, 404, "{path}");
    }
}

/// Graphs in memory belong to the user that made them: another user of the same database sees, reads and drops none of
/// them, and may use the same names.
#[test]
fn graphs_in_memory_are_those_of_their_user() {
    let server = Server::new();
    let ada = server.user("ada", "{\"people\":\"editor\"}");
    let eve = server.user("eve", "{\"people\":\"editor\"}");
    let run = |token: &str, text: &str| {
        let body = serde_json::json!({ "query": text }).to_string();
        let client = server.client(token);
        let answer = client.json("POST", "/v1/databases/people/query", &body);
        (
            answer.status,
            String::from_utf8_lossy(&answer.body).into_owned(),
        )
    };
    let made = run(&ada, "CREATE (:A)-[:T]->(:A), (:B)");
    assert_eq!(made.0, 200, "{}", made.1);
    let made = run(&ada, "CALL gds.graph.project('g', 'A', 'T')");
    assert_eq!(made.0, 200, "{}", made.1);
    let count = "CALL gds.graph.list() YIELD graphName, nodeCount RETURN collect([graphName, nodeCount]) AS g";
    let (_, of_eve) = run(&eve, count);
    assert!(of_eve.contains("[]"), "{of_eve}");
    for text in [
        "CALL gds.wcc.stream('g')",
        "CALL gds.graph.drop('g')",
        "CALL gds.graph.nodeProperty.stream('g', 'x')",
        "CALL gds.wcc.mutate('g', {mutateProperty: 'x'})",
    ] {
        let (status, message) = run(&eve, text);
        assert_eq!(status, 400, "{text}: {message}");
        assert!(message.contains("does not exist"), "{text}: {message}");
    }
    // The same name is another graph.
    let made = run(
        &eve,
        "MATCH (n) RETURN gds.graph.project('g', n, null) AS g",
    );
    assert_eq!(made.0, 200, "{}", made.1);
    assert!(run(&eve, count).1.contains("3"), "{:?}", run(&eve, count));
    assert!(run(&ada, count).1.contains("2"), "{:?}", run(&ada, count));
    assert_eq!(run(&eve, "CALL gds.graph.drop('g')").0, 200);
    assert_eq!(run(&ada, "CALL gds.wcc.stream('g')").0, 200);
}
