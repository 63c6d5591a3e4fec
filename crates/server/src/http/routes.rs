//! The table of all routes. Router, rights, description, metrics and the tests of rights use it.

use super::{
    admin, backups, changes, console, data, fields, files, graph, openapi, query, query_api,
    replicate, results, riak,
    route::{BodyOf, Handler, Route, RouteNeeds},
    transaction_api, transfer, watching,
};
use crate::access::Role;

impl Route {
    /// The route of a method and a path; for `HEAD` that of `GET`.
    pub fn of(method: &str, path: &str) -> Option<&'static Self> {
        let method = if method == "HEAD" { "GET" } else { method };
        let parts = || path.split('/');
        let fits = |pattern: &str| {
            pattern.split('/').count() == parts().count()
                && pattern
                    .split('/')
                    .zip(parts())
                    .all(|(own, part)| own == part || (own.starts_with('{') && !part.is_empty()))
        };
        let mut all = ROUTES.iter();
        all.find(|route| route.method == method && fits(route.path))
    }
}

macro_rules! route {
    ($method:literal $path:literal, Public, $handler:path, $tag:literal, $summary:literal, $params:literal,
     $body:expr, $answers:expr) => {
        Route {
            method: $method,
            path: $path,
            needs: RouteNeeds::Public,
            tag: $tag,
            summary: $summary,
            params: $params,
            body: $body,
            answers: $answers,
            handler: Handler::Public(|call| Box::pin($handler(call))),
        }
    };
    ($method:literal $path:literal, $kind:ident($needs:expr), $handler:path, $tag:literal, $summary:literal,
     $params:literal, $body:expr, $answers:expr) => {
        Route {
            method: $method,
            path: $path,
            needs: RouteNeeds::$kind($needs),
            tag: $tag,
            summary: $summary,
            params: $params,
            body: $body,
            answers: $answers,
            handler: Handler::$kind(|call, access| Box::pin($handler(call, access))),
        }
    };
}

/// All routes.
#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    route!("GET" "/", Public, console::page, "console", "The console: a page for browsers", "", BodyOf::Nothing, &[(200, "Html")]),
    route!("GET" "/console/{file}", Public, console::file, "console", "A file of the console", "", BodyOf::Nothing, &[(200, "Bytes")]),
    route!("GET" "/health", Public, watching::health, "watch", "Whether the process is alive", "", BodyOf::Nothing, &[(200, "Health")]),
    route!("GET" "/ready", Public, watching::ready, "watch", "Whether every database responds, or with `some` any; 503 during shutdown", "some", BodyOf::Nothing, &[(200, "Ready")]),
    route!("GET" "/metrics", Server(Some(Role::Reader)), watching::prometheus, "watch", "Metrics for Prometheus", "", BodyOf::Nothing, &[(200, "Figures")]),
    route!("GET" "/v1/openapi.json", Public, openapi::description, "watch", "This description", "", BodyOf::Nothing, &[(200, "Object")]),
    route!("GET" "/v1/docs", Public, watching::page, "watch", "This description as a page", "", BodyOf::Nothing, &[(200, "Html")]),
    route!("GET" "/v1/docs/page.js", Public, watching::script, "watch", "The script of the page", "", BodyOf::Nothing, &[(200, "Bytes")]),
    route!("GET" "/v1/docs/page.css", Public, watching::style, "watch", "The style of the page", "", BodyOf::Nothing, &[(200, "Bytes")]),
    route!("POST" "/v1/setup", Public, admin::setup, "access", "Creates the first administrator with the one-time token of the first start", "", BodyOf::Schema("Setup"), &[(201, "LoggedIn")]),
    route!("POST" "/v1/login", Public, admin::login, "access", "Logs in with a name and a password; returns a token", "", BodyOf::Schema("Login"), &[(200, "LoggedIn")]),
    route!("POST" "/v1/logout", Server(None), admin::logout, "access", "Logs out: revokes the token of the request", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/me", Server(None), admin::me, "access", "The current user and their rights", "", BodyOf::Nothing, &[(200, "Me")]),
    route!("GET" "/v1/users", Server(Some(Role::Admin)), admin::users, "access", "All users", "", BodyOf::Nothing, &[(200, "Users")]),
    route!("POST" "/v1/users", Server(Some(Role::Admin)), admin::create_user, "access", "Creates a user", "", BodyOf::Schema("NewUser"), &[(201, "User")]),
    route!("GET" "/v1/users/{user}", Server(None), admin::user, "access", "A user; other users only for administrators", "", BodyOf::Nothing, &[(200, "User")]),
    route!("DELETE" "/v1/users/{user}", Server(Some(Role::Admin)), admin::remove_user, "access", "Removes a user with all its tokens", "", BodyOf::Nothing, &[(204, "")]),
    route!("PUT" "/v1/users/{user}/roles", Server(Some(Role::Admin)), admin::set_roles, "access", "Replaces the roles of a user", "", BodyOf::Schema("Roles"), &[(200, "User")]),
    route!("PUT" "/v1/users/{user}/password", Server(None), admin::set_password, "access", "Changes a password: your own with the current one, others as an administrator; ends the user's logins and, with `end_tokens`, revokes all tokens of the user", "", BodyOf::Schema("Password"), &[(204, "")]),
    route!("GET" "/v1/tokens", Server(None), admin::tokens, "access", "Your tokens; with `all` those of all users, for administrators", "all", BodyOf::Nothing, &[(200, "Tokens")]),
    route!("POST" "/v1/tokens", Server(None), admin::create_token, "access", "Creates a token; its secret is returned only here", "", BodyOf::Schema("NewToken"), &[(201, "LoggedIn")]),
    route!("DELETE" "/v1/tokens/{id}", Server(None), admin::remove_token, "access", "Revokes a token", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases", Server(None), admin::databases, "databases", "The databases that you have a right on", "", BodyOf::Nothing, &[(200, "Databases")]),
    route!("POST" "/v1/databases", Server(Some(Role::Admin)), admin::create_database, "databases", "Creates a database, empty or from a backup", "", BodyOf::Schema("NewDatabase"), &[(201, "Made")]),
    route!("DELETE" "/v1/databases/{db}", Server(Some(Role::Admin)), admin::drop_database, "databases", "Drops a database that was created over the network", "", BodyOf::Nothing, &[(204, "")]),
    route!("POST" "/v1/databases/{db}/open", Server(Some(Role::Admin)), admin::open_database, "databases", "Reopens a database that could not be opened or has failed", "", BodyOf::Nothing, &[(200, "Opened")]),
    route!("GET" "/v1/databases/{db}", Database(Role::Reader), admin::database, "databases", "Contents and statistics of a database", "", BodyOf::Nothing, &[(200, "Database")]),
    route!("GET" "/v1/databases/{db}/queries", Database(Role::Admin), admin::queries, "databases", "Running queries, and backups with their progress", "", BodyOf::Nothing, &[(200, "Running")]),
    route!("DELETE" "/v1/databases/{db}/queries/{id}", Database(Role::Admin), admin::kill_query, "databases", "Cancels a running query", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/replication", Database(Role::Replica), replicate::status, "databases", "Status of a replica and its peers: why a peer does not advance, and what to do", "", BodyOf::Nothing, &[(200, "Replication")]),
    route!("PUT" "/v1/databases/{db}/replication/clock", Database(Role::Admin), replicate::accept_clock, "databases", "Accepts transactions of other replicas with timestamps ahead of the clock, up to a time; null revokes it", "", BodyOf::Schema("AcceptClock"), &[(200, "Replication")]),
    route!("POST" "/v1/databases/{db}/replication", Database(Role::Replica), replicate::exchange, "databases", "Exchanges transactions with another database: one frame of the protocol of `isomer sync`", "", BodyOf::Schema("Frame"), &[(200, "Frame")]),
    route!("POST" "/v1/databases/{db}/backups", Database(Role::Admin), backups::make, "databases", "Makes a backup under this name: a full one first, then incremental ones; `keep` is how many are kept, `copy` makes an independent database instead", "", BodyOf::Schema("Backup"), &[(201, "Object")]),
    route!("GET" "/v1/databases/{db}/backups", Database(Role::Admin), backups::list, "databases", "Backups of the database", "", BodyOf::Nothing, &[(200, "Backups")]),
    route!("DELETE" "/v1/databases/{db}/backups/{backup}", Database(Role::Admin), backups::remove, "databases", "Removes all backups of a name, or a copy", "", BodyOf::Nothing, &[(204, "")]),
    route!("POST" "/v1/databases/{db}/query", Database(Role::Reader), query::query, "queries", "Runs a query; returns JSON, or lines with `Accept: application/jsonl`, or as columns with `Accept: application/vnd.apache.arrow.stream`", "", BodyOf::Schema("Query"), &[(200, "Result")]),
    route!("POST" "/db/{db}/query/v2", Public, query_api::query, "neo4j", "Neo4j's Query API: runs a query; with a name and password (Basic) or a token", "", BodyOf::Schema("Object"), &[(202, "Object")]),
    route!("POST" "/db/{db}/tx/commit", Public, transaction_api::run_and_commit, "neo4j", "Neo4j's older interface: runs statements in a transaction and commits", "", BodyOf::Optional("Object"), &[(200, "Object")]),
    route!("POST" "/db/{db}/tx", Public, transaction_api::run, "neo4j", "Neo4j's older interface: begins a transaction, which stays open, and runs statements", "", BodyOf::Optional("Object"), &[(201, "Object")]),
    route!("POST" "/db/{db}/tx/{transaction}", Public, transaction_api::run, "neo4j", "Neo4j's older interface: runs statements in a transaction", "", BodyOf::Optional("Object"), &[(200, "Object")]),
    route!("POST" "/db/{db}/tx/{transaction}/commit", Public, transaction_api::run_and_commit, "neo4j", "Neo4j's older interface: runs statements in a transaction and commits", "", BodyOf::Optional("Object"), &[(200, "Object")]),
    route!("DELETE" "/db/{db}/tx/{transaction}", Public, transaction_api::rollback, "neo4j", "Neo4j's older interface: rolls a transaction back", "", BodyOf::Nothing, &[(200, "Object")]),
    route!("POST" "/v1/databases/{db}/tx", Database(Role::Reader), query::begin, "queries", "Begins a transaction that stays open between requests", "", BodyOf::Optional("Begin"), &[(201, "Transaction")]),
    route!("GET" "/v1/databases/{db}/tx/{transaction}", Database(Role::Reader), query::transaction_status, "queries", "The remaining time of a transaction; using it prolongs it", "", BodyOf::Nothing, &[(200, "Transaction")]),
    route!("POST" "/v1/databases/{db}/tx/{transaction}/query", Database(Role::Reader), query::query_in, "queries", "Runs a query in a transaction", "", BodyOf::Schema("Query"), &[(200, "Result")]),
    route!("POST" "/v1/databases/{db}/tx/{transaction}/commit", Database(Role::Reader), query::commit, "queries", "Commits a transaction", "", BodyOf::Nothing, &[(200, "Version")]),
    route!("DELETE" "/v1/databases/{db}/tx/{transaction}", Database(Role::Reader), query::rollback, "queries", "Rolls a transaction back", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/buckets", Database(Role::Reader), data::buckets, "buckets", "All buckets", "", BodyOf::Nothing, &[(200, "Buckets")]),
    route!("PUT" "/v1/databases/{db}/buckets/{bucket}", Database(Role::Schema), data::create_bucket, "buckets", "Creates a bucket with options; plain ones are created with their first key", "", BodyOf::Optional("Bucket"), &[(201, "")]),
    route!("DELETE" "/v1/databases/{db}/buckets/{bucket}", Database(Role::Schema), data::drop_bucket, "buckets", "Drops a bucket with its contents", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/buckets/{bucket}/keys", Database(Role::Reader), data::scan_keys, "buckets", "Keys and values in order: a range, or a prefix, page by page; the keys alone where each has several values", "prefix,from,to,order,limit,cursor,key_encoding", BodyOf::Nothing, &[(200, "Pairs")]),
    route!("DELETE" "/v1/databases/{db}/buckets/{bucket}/keys", Database(Role::Editor), data::delete_keys, "buckets", "Deletes a range of keys", "prefix,from,to,key_encoding", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/buckets/{bucket}/keys/{key}", Database(Role::Reader), data::get_key, "buckets", "The value of a key, with its ETag", "key_encoding", BodyOf::Nothing, &[(200, "Value"), (304, "")]),
    route!("PUT" "/v1/databases/{db}/buckets/{bucket}/keys/{key}", Database(Role::Editor), data::put_key, "buckets", "Puts a value under a key; with `If-Match` or `If-None-Match`, compare-and-set", "expires_in_ms,key_encoding,value_types", BodyOf::Schema("Value"), &[(204, "")]),
    route!("DELETE" "/v1/databases/{db}/buckets/{bucket}/keys/{key}", Database(Role::Editor), data::delete_key, "buckets", "Deletes a key", "key_encoding", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/buckets/{bucket}/keys/{key}/values", Database(Role::Reader), data::key_values, "buckets", "The values of a key, in a bucket with several values per key, page by page", "limit,cursor,key_encoding", BodyOf::Nothing, &[(200, "Values")]),
    route!("POST" "/v1/databases/{db}/buckets/{bucket}/keys/{key}/values", Database(Role::Editor), data::add_value, "buckets", "Adds a value to a key, or removes it", "remove,key_encoding", BodyOf::Schema("Value"), &[(204, "")]),
    route!("POST" "/v1/databases/{db}/buckets/{bucket}/sequences/{sequence}/next", Database(Role::Editor), data::next_number, "buckets", "The next number of a sequence", "", BodyOf::Nothing, &[(200, "Number")]),
    route!("GET" "/v1/databases/{db}/collections/{label}", Database(Role::Reader), data::scan_documents, "documents", "Documents in the order of their keys, page by page", "from,to,limit,cursor,key_type", BodyOf::Nothing, &[(200, "DocumentPage")]),
    route!("POST" "/v1/databases/{db}/collections/{label}", Database(Role::Editor), data::insert_documents, "documents", "Inserts a document, or a list of them", "", BodyOf::Schema("Documents"), &[(201, "Keys")]),
    route!("GET" "/v1/databases/{db}/collections/{label}/{key}", Database(Role::Reader), data::get_document, "documents", "A document, with its ETag", "key_type", BodyOf::Nothing, &[(200, "Object"), (304, "")]),
    route!("PUT" "/v1/databases/{db}/collections/{label}/{key}", Database(Role::Editor), data::put_document, "documents", "Inserts or replaces a document; with `If-Match` or `If-None-Match`, compare-and-set", "key_type,value_types", BodyOf::Schema("Object"), &[(201, ""), (204, "")]),
    route!("PATCH" "/v1/databases/{db}/collections/{label}/{key}", Database(Role::Editor), data::patch_document, "documents", "Merges into a document; null removes", "key_type,value_types", BodyOf::Schema("Object"), &[(200, "Object")]),
    route!("DELETE" "/v1/databases/{db}/collections/{label}/{key}", Database(Role::Editor), data::delete_document, "documents", "Deletes a document; `detach` with its relationships", "key_type,detach", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/collections/{label}/{key}/fields/{field}", Database(Role::Reader), fields::fetch, "convergent", "A convergent field with its context; `contains` asks for one element of a set, `limit` and `from` for a page of it, `replicas` for which replicas it comes from", "key_type,contains,from,limit,replicas", BodyOf::Nothing, &[(200, "Field")]),
    route!("POST" "/v1/databases/{db}/collections/{label}/{key}/fields/{field}", Database(Role::Editor), fields::update, "convergent", "Changes a convergent field; removals with a context keep what was added after it", "key_type", BodyOf::Schema("Change"), &[(200, "Field")]),
    route!("GET" "/v1/databases/{db}/riak/types/{datatype}/buckets/{bucket}/datatypes/{key}", Database(Role::Reader), riak::fetch, "convergent", "A Riak data type: counters, sets, gsets, hlls, maps", "", BodyOf::Nothing, &[(200, "RiakValue")]),
    route!("POST" "/v1/databases/{db}/riak/types/{datatype}/buckets/{bucket}/datatypes/{key}", Database(Role::Editor), riak::update, "convergent", "Changes a Riak data type; `returnbody` returns the new value", "returnbody", BodyOf::Schema("Json"), &[(200, "RiakValue"), (204, "")]),
    route!("GET" "/v1/databases/{db}/files", Database(Role::Reader), files::list, "files", "Entries of a folder, by name, page by page", "path,limit,cursor", BodyOf::Nothing, &[(200, "Entries")]),
    route!("PUT" "/v1/databases/{db}/files", Database(Role::Editor), files::make_folder, "files", "Creates a folder and its parents", "path!", BodyOf::Nothing, &[(201, "")]),
    route!("GET" "/v1/databases/{db}/file", Database(Role::Reader), files::get, "files", "The content of a file, with its ETag; with `Range`, part of it", "path!", BodyOf::Nothing, &[(200, "Bytes"), (206, "Bytes"), (304, "")]),
    route!("PUT" "/v1/databases/{db}/file", Database(Role::Editor), files::put, "files", "Writes a file, which becomes visible when complete; `folders` creates its parents", "path!,folders", BodyOf::Optional("Bytes"), &[(201, ""), (204, "")]),
    route!("DELETE" "/v1/databases/{db}/file", Database(Role::Editor), files::delete, "files", "Removes a file or an empty folder; with `all` a folder and its contents", "path!,all", BodyOf::Nothing, &[(204, "")]),
    route!("POST" "/v1/databases/{db}/file/move", Database(Role::Editor), files::rename, "files", "Moves a file or folder", "path!,to!", BodyOf::Nothing, &[(204, "")]),
    route!("POST" "/v1/databases/{db}/nodes", Database(Role::Editor), graph::create_node, "graph", "Creates a node", "", BodyOf::Schema("NewNode"), &[(201, "Node")]),
    route!("GET" "/v1/databases/{db}/nodes/{id}", Database(Role::Reader), graph::get_node, "graph", "A node", "", BodyOf::Nothing, &[(200, "Node"), (304, "")]),
    route!("PATCH" "/v1/databases/{db}/nodes/{id}", Database(Role::Editor), graph::patch_node, "graph", "Sets properties of a node; null removes", "value_types", BodyOf::Schema("Object"), &[(200, "Node")]),
    route!("DELETE" "/v1/databases/{db}/nodes/{id}", Database(Role::Editor), graph::delete_node, "graph", "Deletes a node; `detach` with its relationships", "detach", BodyOf::Nothing, &[(204, "")]),
    route!("PUT" "/v1/databases/{db}/nodes/{id}/labels/{label}", Database(Role::Editor), graph::change_label, "graph", "Adds a label to a node", "", BodyOf::Nothing, &[(204, "")]),
    route!("DELETE" "/v1/databases/{db}/nodes/{id}/labels/{label}", Database(Role::Editor), graph::change_label, "graph", "Removes a label from a node", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/nodes/{id}/properties", Database(Role::Reader), graph::properties, "graph", "The properties of a node", "", BodyOf::Nothing, &[(200, "Object"), (304, "")]),
    route!("GET" "/v1/databases/{db}/nodes/{id}/properties/{name}", Database(Role::Reader), graph::get_property, "graph", "A property of a node", "", BodyOf::Nothing, &[(200, "Json"), (304, "")]),
    route!("PUT" "/v1/databases/{db}/nodes/{id}/properties/{name}", Database(Role::Editor), graph::put_property, "graph", "Sets a property of a node", "value_types", BodyOf::Schema("Json"), &[(204, "")]),
    route!("DELETE" "/v1/databases/{db}/nodes/{id}/properties/{name}", Database(Role::Editor), graph::delete_property, "graph", "Removes a property of a node", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/nodes/{id}/degree", Database(Role::Reader), graph::degree, "graph", "Number of relationships of a node, by direction and types", "direction,types", BodyOf::Nothing, &[(200, "Degree")]),
    route!("GET" "/v1/databases/{db}/nodes/{id}/neighbours", Database(Role::Reader), graph::neighbours, "graph", "Relationships of a node and the nodes at their other ends, page by page", "direction,types,limit,cursor", BodyOf::Nothing, &[(200, "Neighbours")]),
    route!("POST" "/v1/databases/{db}/relationships", Database(Role::Editor), graph::create_relationship, "graph", "Creates a relationship", "", BodyOf::Schema("NewRelationship"), &[(201, "Relationship")]),
    route!("GET" "/v1/databases/{db}/relationships/{id}", Database(Role::Reader), graph::get_relationship, "graph", "A relationship", "", BodyOf::Nothing, &[(200, "Relationship"), (304, "")]),
    route!("PATCH" "/v1/databases/{db}/relationships/{id}", Database(Role::Editor), graph::patch_relationship, "graph", "Sets properties of a relationship; null removes", "value_types", BodyOf::Schema("Object"), &[(200, "Relationship")]),
    route!("DELETE" "/v1/databases/{db}/relationships/{id}", Database(Role::Editor), graph::delete_relationship, "graph", "Deletes a relationship", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/relationships/{id}/properties", Database(Role::Reader), graph::properties, "graph", "The properties of a relationship", "", BodyOf::Nothing, &[(200, "Object"), (304, "")]),
    route!("GET" "/v1/databases/{db}/relationships/{id}/properties/{name}", Database(Role::Reader), graph::get_property, "graph", "A property of a relationship", "", BodyOf::Nothing, &[(200, "Json"), (304, "")]),
    route!("PUT" "/v1/databases/{db}/relationships/{id}/properties/{name}", Database(Role::Editor), graph::put_property, "graph", "Sets a property of a relationship", "value_types", BodyOf::Schema("Json"), &[(204, "")]),
    route!("DELETE" "/v1/databases/{db}/relationships/{id}/properties/{name}", Database(Role::Editor), graph::delete_property, "graph", "Removes a property of a relationship", "", BodyOf::Nothing, &[(204, "")]),
    route!("GET" "/v1/databases/{db}/relationship-types", Database(Role::Reader), graph::types, "graph", "Types of relationships, with their counts", "", BodyOf::Nothing, &[(200, "Types")]),
    route!("GET" "/v1/databases/{db}/labels", Database(Role::Reader), graph::labels, "graph", "Labels, with their node counts", "", BodyOf::Nothing, &[(200, "Labels")]),
    route!("GET" "/v1/databases/{db}/changes", Database(Role::Reader), changes::changes, "changes", "What every commit changes, as server-sent events", "from,labels,types,buckets", BodyOf::Nothing, &[(200, "Events")]),
    route!("POST" "/v1/databases/{db}/changes", Database(Role::Reader), results::results, "changes", "A live query: its result, sent again when it has changed, as server-sent events", "pause_ms", BodyOf::Schema("Followed"), &[(200, "Events")]),
    route!("POST" "/v1/databases/{db}/import/nodes", Database(Role::Editor), transfer::import_nodes, "transfer", "Loads nodes of a label from JSON lines, all or none", "label!,key", BodyOf::Schema("Lines"), &[(200, "Loaded")]),
    route!("POST" "/v1/databases/{db}/import/relationships", Database(Role::Editor), transfer::import_relationships, "transfer", "Loads relationships from JSON lines with `_from` and `_to`, all or none", "type!,from!,to!", BodyOf::Schema("Lines"), &[(200, "Loaded")]),
    route!("GET" "/v1/databases/{db}/export/nodes", Database(Role::Reader), transfer::export_nodes, "transfer", "The nodes of a label as JSON lines", "label!,plain", BodyOf::Nothing, &[(200, "Lines")]),
    route!("GET" "/v1/databases/{db}/export/relationships", Database(Role::Reader), transfer::export_relationships, "transfer", "The relationships of a type as JSON lines, with `_from` and `_to`", "type!,from,to,plain", BodyOf::Nothing, &[(200, "Lines")]),
];
