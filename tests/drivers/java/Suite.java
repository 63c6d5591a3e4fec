// The Java driver against a server: see ../README.md. Run as one source file: java -cp 'folder/*' Suite.java

import static org.neo4j.driver.Values.parameters;

import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import org.neo4j.driver.AccessMode;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.QueryConfig;
import org.neo4j.driver.RoutingControl;
import org.neo4j.driver.SessionConfig;
import org.neo4j.driver.TransactionConfig;
import org.neo4j.driver.Value;
import org.neo4j.driver.Values;
import org.neo4j.driver.exceptions.Neo4jException;

class Suite {
    static final String HOST = System.getenv("BOLT");
    static final String PASSWORD = System.getenv("PASSWORD");
    static final SessionConfig PEOPLE = SessionConfig.forDatabase("people");
    static Driver driver;

    interface Test {
        void run() throws Exception;
    }

    static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(String code, Test run) throws Exception {
        try {
            run.run();
        } catch (Neo4jException error) {
            same(code, error.code());
            return;
        }
        throw new AssertionError(code + " was expected");
    }

    static Value one(String query, Object... parameters) {
        try (var session = driver.session(PEOPLE)) {
            return session.run(query, parameters(parameters)).single().get(0);
        }
    }

    static void autoCommit() {
        try (var session = driver.session(PEOPLE)) {
            var result = session.run("CREATE (p:Java {name: $name}) RETURN p", parameters("name", "Ada"));
            var node = result.single().get("p").asNode();
            same(List.of("Java"), node.labels());
            var summary = result.consume();
            same(1, summary.counters().nodesCreated());
            same("people", summary.database().name());
            same("READ_WRITE", summary.queryType().name());
        }
        same(1, one("MATCH (p:Java) RETURN count(p)").asInt());
    }

    static void explicitTransactions() {
        try (var session = driver.session(PEOPLE)) {
            try (var tx = session.beginTransaction()) {
                tx.run("CREATE (:JavaTx)");
                var a = tx.run("UNWIND range(1, 2500) AS n RETURN n");
                var b = tx.run("UNWIND range(1, 1500) AS n RETURN n");
                same(1500, b.list().size());
                same(2500, a.list().size());
                tx.rollback();
            }
            same(0, one("MATCH (p:JavaTx) RETURN count(p)").asInt());
            try (var tx = session.beginTransaction()) {
                tx.run("CREATE (:JavaTx)");
                tx.commit();
            }
        }
        same(1, one("MATCH (p:JavaTx) RETURN count(p)").asInt());
    }

    static void managedRetries() {
        one("MERGE (c:JavaCount {_key: 1}) SET c.n = 0 RETURN c");
        var attempts = new AtomicInteger();
        try (var session = driver.session(PEOPLE)) {
            session.executeWriteWithoutResult(tx -> {
                var n = tx.run("MATCH (c:JavaCount {_key: 1}) RETURN c.n").single().get(0).asInt();
                if (attempts.incrementAndGet() == 1) {
                    one("MATCH (c:JavaCount {_key: 1}) SET c.n = 10 RETURN c");
                }
                tx.run("MATCH (c:JavaCount {_key: 1}) SET c.n = $n", parameters("n", n + 1));
            });
        }
        same(2, attempts.get());
        same(11, one("MATCH (c:JavaCount {_key: 1}) RETURN c.n").asInt());
    }

    static void values() {
        var values = new ArrayList<Object>(Arrays.asList(
                null, true, -17L, Long.MIN_VALUE, 0.5, "", "ä€", "x".repeat(70_000), List.of(), List.of(1L, List.of("a")),
                Map.of("a", Map.of("b", List.of(1L))), LocalDate.of(2026, 11, 21), LocalDate.of(-9999, 1, 1),
                LocalTime.of(23, 59, 59, 999_999_999), OffsetTime.of(1, 2, 3, 4, ZoneOffset.ofHoursMinutes(-3, -30)),
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 1),
                ZonedDateTime.of(2026, 7, 1, 12, 0, 0, 5, ZoneOffset.ofHoursMinutes(5, 30)),
                ZonedDateTime.of(2026, 7, 1, 12, 0, 0, 5, ZoneId.of("Europe/Rome")),
                Values.isoDuration(-14, 3, 5, 7).asIsoDuration(), Values.point(4326, 12.5, 41.9).asPoint(),
                Values.point(9157, 1.5, 2.5, 3.5).asPoint()));
        for (var value : values) {
            same(value, one("RETURN $value", "value", value).asObject());
        }
        same(true, Arrays.equals(new byte[] {0, 1, -1}, one("RETURN $b", "b", new byte[] {0, 1, -1}).asByteArray()));
        var path = one("CREATE p = (:JavaV {n: 1})-[:TO {w: 1.5}]->(:JavaV {n: 2})<-[:TO]-(:JavaV {n: 3}) RETURN p").asPath();
        same(2, path.length());
        same(3L, path.end().get("n").asLong());
        var rels = path.relationships().iterator();
        same(1.5, rels.next().get("w").asDouble());
        same(path.end().elementId(), rels.next().startNodeElementId());
    }

    static void slowStream() throws Exception {
        try (var session = driver.session(SessionConfig.builder().withDatabase("people").withFetchSize(100).build())) {
            var result = session.run("UNWIND range(1, 10000) AS n RETURN n");
            long sum = 0;
            int count = 0;
            while (result.hasNext()) {
                sum += result.next().get(0).asLong();
                if (++count % 2000 == 0) {
                    Thread.sleep(30);
                }
            }
            same(10_000L * 10_001 / 2, sum);
            var long_ = session.run("UNWIND range(1, 100000000) AS n RETURN n");
            same(1L, long_.next().get(0).asLong());
        }
    }

    static void bookmarks() {
        try (var session = driver.session(PEOPLE)) {
            session.run("CREATE (:JavaB)").consume();
            var marks = session.lastBookmarks();
            same(true, marks.iterator().next().value().startsWith("isomer:people:"));
            var config = SessionConfig.builder().withDatabase("people").withBookmarks(marks).build();
            try (var next = driver.session(config)) {
                same(1, next.run("MATCH (b:JavaB) RETURN count(b)").single().get(0).asInt());
            }
        }
    }

    static void severalDatabases() throws Exception {
        var other = QueryConfig.builder().withDatabase("other").withRouting(RoutingControl.WRITE).build();
        driver.executableQuery("CREATE (:JavaOther)").withConfig(other).execute();
        same(0, one("MATCH (o:JavaOther) RETURN count(o)").asInt());
        refused("Neo.ClientError.Database.DatabaseNotFound", () -> driver.executableQuery("RETURN 1")
                .withConfig(QueryConfig.builder().withDatabase("nowhere").build()).execute());
        try (var routed = GraphDatabase.driver("neo4j://" + HOST, AuthTokens.basic("admin", PASSWORD))) {
            var found = routed.executableQuery("MATCH (o:JavaOther) RETURN count(o)").withConfig(other).execute();
            same(1, found.records().get(0).get(0).asInt());
        }
    }

    static void timeLimits() throws Exception {
        var limit = TransactionConfig.builder().withTimeout(Duration.ofMillis(300)).build();
        try (var session = driver.session(PEOPLE)) {
            refused("Neo.ClientError.Transaction.TransactionTimedOut", () -> session.run(
                    "UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)", limit).consume());
            same(1, session.run("RETURN 1").single().get(0).asInt());
        }
    }

    static void errors() throws Exception {
        refused("Neo.ClientError.Statement.SyntaxError", () -> one("RETRUN 1"));
        refused("Neo.ClientError.Statement.ParameterMissing", () -> one("RETURN $x"));
        one("CREATE (k:JavaKey {_key: 1}) RETURN k");
        refused("Neo.ClientError.Schema.ConstraintValidationFailed", () -> one("CREATE (k:JavaKey {_key: 1}) RETURN k"));
        var reading = SessionConfig.builder().withDatabase("people").withDefaultAccessMode(AccessMode.READ).build();
        try (var session = driver.session(reading)) {
            refused("Neo.ClientError.Statement.AccessMode", () -> session.run("CREATE (:No)").consume());
        }
    }

    static void plans() {
        try (var session = driver.session(PEOPLE)) {
            same(true, session.run("EXPLAIN MATCH (n:Java) RETURN n").consume().hasPlan());
            same(2L, session.run("PROFILE UNWIND [1, 2] AS n RETURN n").consume().profile().records());
            var statuses = session.run("MATCH (n:JavaNothing) RETURN n").consume().gqlStatusObjects();
            same(List.of("02000", "01N50"), statuses.stream().map(one -> one.gqlStatus()).toList());
        }
    }

    static void rights() throws Exception {
        try (var reader = GraphDatabase.driver("bolt://" + HOST, AuthTokens.basic("reader", PASSWORD))) {
            same(1, reader.executableQuery("RETURN 1").execute().records().size());
            refused("Neo.ClientError.Security.Forbidden", () -> reader.executableQuery("CREATE (:No)").execute());
            refused("Neo.ClientError.Security.Forbidden", () -> reader.executableQuery("RETURN 1")
                    .withConfig(QueryConfig.builder().withDatabase("other").build()).execute());
        }
    }

    public static void main(String[] arguments) {
        java.util.logging.LogManager.getLogManager().reset();
        var tests = new java.util.LinkedHashMap<String, Test>();
        tests.put("autoCommit", Suite::autoCommit);
        tests.put("explicitTransactions", Suite::explicitTransactions);
        tests.put("managedRetries", Suite::managedRetries);
        tests.put("values", Suite::values);
        tests.put("slowStream", Suite::slowStream);
        tests.put("bookmarks", Suite::bookmarks);
        tests.put("severalDatabases", Suite::severalDatabases);
        tests.put("timeLimits", Suite::timeLimits);
        tests.put("errors", Suite::errors);
        tests.put("plans", Suite::plans);
        tests.put("rights", Suite::rights);
        int failed = 0;
        driver = GraphDatabase.driver("bolt://" + HOST, AuthTokens.basic("admin", PASSWORD));
        for (var test : tests.entrySet()) {
            var outcome = "ok";
            try {
                test.getValue().run();
            } catch (Throwable error) {
                error.printStackTrace();
                outcome = "FAILED";
                failed++;
            }
            System.out.println("test java::" + test.getKey() + " ... " + outcome);
        }
        driver.close();
        System.out.printf("test result: %s. %d passed; %d failed; 0 ignored%n", failed == 0 ? "ok" : "FAILED",
                tests.size() - failed, failed);
        System.exit(failed == 0 ? 0 : 1);
    }
}
