package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;
import org.neo4j.graphalgo.BasicEvaluationContext;
import org.neo4j.graphalgo.GraphAlgoFactory;
import org.neo4j.graphalgo.PathFinder;
import org.neo4j.graphdb.Direction;
import org.neo4j.graphdb.GraphDatabaseService;
import org.neo4j.graphdb.Label;
import org.neo4j.graphdb.Node;
import org.neo4j.graphdb.PathExpanders;
import org.neo4j.graphdb.Relationship;
import org.neo4j.graphdb.RelationshipType;
import org.neo4j.graphdb.ResourceIterator;
import org.neo4j.graphdb.Result;
import org.neo4j.graphdb.Transaction;

/**
 * Neo4j in this process: loaded by its own importer, then asked through its core API, or in Cypher where that is wanted.
 */
@SuppressWarnings("deprecation") // the numeric ids are the fastest there are
final class NeoPeer extends Peer {
  private static final Label PERSON = Label.label("Person");
  private static final RelationshipType FRIEND = RelationshipType.withName("FRIEND");
  private static final String STEPS = "MATCH (p:Person {_key: $key})-[:FRIEND*1..2]->(n) WHERE n <> p RETURN DISTINCT ";

  private final boolean cypher;
  private DatabaseManagementService service;
  private GraphDatabaseService db;
  private long[] numbers;
  private Label written;

  private NeoPeer(String data, String folder, boolean cypher) throws IOException {
    super(data, folder);
    this.cypher = cypher;
  }

  public static void main(String[] arguments) throws Exception {
    NeoPeer peer = new NeoPeer(arguments[0], arguments[1], arguments.length > 2 && arguments[2].equals("cypher"));
    peer.serve();
    if (peer.service != null) {
      peer.service.shutdown();
    }
  }

  @Override
  void load() throws Exception {
    Path home = folder.resolve("neo4j").toAbsolutePath();
    Files.createDirectories(home.resolve("conf"));
    Files.writeString(home.resolve("conf/neo4j.conf"), "server.directories.neo4j_home=" + home + "\n");
    Files.writeString(home.resolve("people.head"), "id:ID,_key:string,AGE:int,completion:int,doc:string\n");
    Files.writeString(home.resolve("friends.head"), ":START_ID,:END_ID\n");
    List<String> command = List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx2g", "-cp",
        System.getProperty("java.class.path"), "org.neo4j.cli.AdminTool", "database", "import", "full", "neo4j",
        "--id-type=integer", "--quote=\"",
        "--nodes=Person=" + home.resolve("people.head") + "," + data.resolve("people.csv").toAbsolutePath(),
        "--relationships=FRIEND=" + home.resolve("friends.head") + "," + data.resolve("friends.csv").toAbsolutePath());
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("NEO4J_HOME", home.toString());
    builder.environment().put("NEO4J_CONF", home.resolve("conf").toString());
    Process importing = builder.redirectOutput(home.resolve("import.log").toFile()).start();
    if (importing.waitFor() != 0) {
      throw new IOException("the importer failed: " + Files.readString(home.resolve("import.log")).strip());
    }
    service = new DatabaseManagementServiceBuilder(home)
        .setConfig(GraphDatabaseSettings.pagecache_memory, 4L << 30)
        .setConfig(GraphDatabaseSettings.logical_log_rotation_threshold, 1L << 30)
        .build();
    db = service.database("neo4j");
    try (Transaction tx = db.beginTx()) {
      tx.schema().constraintFor(PERSON).assertPropertyIsUnique("_key").create();
      tx.commit();
    }
    try (Transaction tx = db.beginTx()) {
      tx.schema().awaitIndexesOnline(10, TimeUnit.MINUTES);
    }
  }

  @Override
  long[] counts() {
    try (Transaction tx = db.beginTx(); ResourceIterator<Node> people = tx.findNodes(PERSON)) {
      long count = 0;
      long highest = 0;
      List<long[]> found = new ArrayList<>();
      while (people.hasNext()) {
        Node node = people.next();
        found.add(new long[] {node.getId(), ((Number) node.getProperty("id")).longValue()});
        highest = Math.max(highest, node.getId());
        count++;
      }
      numbers = new long[(int) highest + 1];
      found.forEach(pair -> numbers[(int) pair[0]] = pair[1]);
      return new long[] {count, (Long) one(tx.execute("MATCH ()-[f:FRIEND]->() RETURN count(f) AS n"), "n")};
    }
  }

  private static Object one(Result result, String column) {
    try (result) {
      return result.next().get(column);
    }
  }

  private <T> List<T> column(Transaction tx, String text, String key, Class<T> type) {
    List<T> found = new ArrayList<>();
    try (Result result = tx.execute(text, Map.of("key", key)); ResourceIterator<T> values = result.columnAs("x")) {
      values.forEachRemaining(found::add);
    }
    return found;
  }

  @Override
  String read(String key) {
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        return column(tx, "MATCH (p:Person {_key: $key}) RETURN p.doc AS x", key, String.class).get(0);
      }
      return (String) tx.findNode(PERSON, "_key", key).getProperty("doc");
    }
  }

  @Override
  Map<Integer, Long> ages() {
    Map<Integer, Long> ages = new HashMap<>();
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        try (Result result = tx.execute("MATCH (p:Person) RETURN p.AGE AS age, count(*) AS n")) {
          result.forEachRemaining(row -> {
            Number age = (Number) row.get("age");
            ages.put(age == null ? -1 : age.intValue(), (Long) row.get("n"));
          });
        }
        return ages;
      }
      try (ResourceIterator<Node> people = tx.findNodes(PERSON)) {
        people.forEachRemaining(node -> ages.merge(((Number) node.getProperty("AGE", -1)).intValue(), 1L, Long::sum));
      }
    }
    return ages;
  }

  /** Distinct nodes at one or two steps; the start itself is not among them. */
  private List<Node> around(Transaction tx, String key) {
    Node start = tx.findNode(PERSON, "_key", key);
    java.util.BitSet seen = new java.util.BitSet(numbers.length);
    seen.set((int) start.getId());
    List<Node> found = new ArrayList<>();
    reach(start, seen, found);
    int direct = found.size();
    for (int at = 0; at < direct; at++) {
      reach(found.get(at), seen, found);
    }
    return found;
  }

  private static void reach(Node node, java.util.BitSet seen, List<Node> found) {
    for (Relationship relationship : node.getRelationships(Direction.OUTGOING, FRIEND)) {
      int id = (int) relationship.getEndNodeId();
      if (!seen.get(id)) {
        seen.set(id);
        found.add(relationship.getEndNode());
      }
    }
  }

  @Override
  long[] neighbours(String key) {
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        return column(tx, STEPS + "id(n) AS x", key, Long.class).stream().mapToLong(Long::longValue).toArray();
      }
      return around(tx, key).stream().mapToLong(Node::getId).toArray();
    }
  }

  @Override
  long number(long id) {
    return numbers[(int) id];
  }

  private List<String> property(String key, String name) {
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        return column(tx, STEPS + "n." + name + " AS x", key, String.class);
      }
      List<String> found = new ArrayList<>();
      for (Node node : around(tx, key)) {
        found.add((String) node.getProperty(name));
      }
      return found;
    }
  }

  @Override
  List<String> neighbourKeys(String key) {
    return property(key, "_key");
  }

  @Override
  List<String> neighbourProfiles(String key) {
    return property(key, "doc");
  }

  @Override
  long countPaths() {
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        return (Long) one(tx.execute("MATCH ()-[:FRIEND]->()-[:FRIEND]->() RETURN count(*) AS n"), "n");
      }
      long paths = 0;
      try (ResourceIterator<Node> people = tx.findNodes(PERSON)) {
        while (people.hasNext()) {
          Node node = people.next();
          paths += (long) node.getDegree(FRIEND, Direction.INCOMING) * node.getDegree(FRIEND, Direction.OUTGOING);
        }
      }
      return paths;
    }
  }

  @Override
  int shortest(String from, String to) {
    try (Transaction tx = db.beginTx()) {
      if (cypher) {
        String text = "MATCH (a:Person {_key: $a}), (b:Person {_key: $b}), p = shortestPath((a)-[:FRIEND*..20]->(b)) RETURN length(p) AS n";
        try (Result result = tx.execute(text, Map.of("a", from, "b", to))) {
          return result.hasNext() ? ((Long) result.next().get("n")).intValue() : -1;
        }
      }
      PathFinder<?> finder = GraphAlgoFactory.shortestPath(
          new BasicEvaluationContext(tx, db), PathExpanders.forTypeAndDirection(FRIEND, Direction.OUTGOING), 20);
      var path = finder.findSinglePath(tx.findNode(PERSON, "_key", from), tx.findNode(PERSON, "_key", to));
      return path == null ? -1 : path.length();
    }
  }

  @Override
  void beginWrites(int batch) {
    written = Label.label("Written" + batch);
    try (Transaction tx = db.beginTx()) {
      tx.schema().constraintFor(written).assertPropertyIsUnique("_key").create();
      tx.commit();
    }
  }

  @Override
  void write(String key, String text) throws Exception {
    // Every commit of Neo4j is synced: that is no buffered write, and one thread would wait for the disk alone.
    throw new NotOffered();
  }

  @Override
  void endWrites() {}

  @Override
  List<String> written() {
    return List.of();
  }
}
