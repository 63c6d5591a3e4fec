package peers;

import com.arcadedb.database.Database;
import com.arcadedb.database.DatabaseFactory;
import com.arcadedb.database.RID;
import com.arcadedb.engine.WALFile;
import com.arcadedb.graph.GraphBatch;
import com.arcadedb.graph.Vertex;
import com.arcadedb.graph.olap.GraphAnalyticalView;
import com.arcadedb.query.sql.executor.Result;
import com.arcadedb.query.sql.executor.ResultSet;
import com.arcadedb.schema.Schema;
import com.arcadedb.schema.Type;
import com.arcadedb.schema.VertexType;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * ArcadeDB in this process: loaded by its batch importer, asked through its API over its analytical view (compressed rows in
 * memory), in its languages where those do better.
 */
final class ArcadePeer extends Peer {
  private static final int BATCH = 20_000;

  private Database db;
  private GraphAnalyticalView view;
  private long[] numbers;
  private String written;

  private ArcadePeer(String data, String folder) throws IOException {
    super(data, folder);
  }

  public static void main(String[] arguments) throws Exception {
    ArcadePeer peer = new ArcadePeer(arguments[0], arguments[1]);
    peer.serve();
    if (peer.db != null) {
      peer.db.close();
    }
  }

  @Override
  void load() throws Exception {
    db = new DatabaseFactory(folder.resolve("arcade").toString()).create();
    VertexType person = db.getSchema().buildVertexType().withName("Person").withTotalBuckets(1).create();
    person.createProperty("_key", Type.STRING);
    person.createProperty("id", Type.INTEGER);
    person.createProperty("AGE", Type.INTEGER);
    // Edges without properties: they live in their vertices alone.
    db.command("sql", "CREATE EDGE TYPE Friend LIGHTWEIGHT").close();
    List<RID> people = new ArrayList<>();
    try (GraphBatch batch = GraphBatch.builder(db).withBatchSize(1_000_000).withLightEdges(true).withWAL(false).build()) {
      try (BufferedReader rows = Files.newBufferedReader(data.resolve("people.csv"))) {
        List<Object[]> some = new ArrayList<>();
        for (String line = rows.readLine(); line != null; line = rows.readLine()) {
          Row row = Row.parse(line);
          some.add(row.age() == null
              ? new Object[] {"id", row.id(), "_key", row.key(), "completion", row.completion(), "doc", row.doc()}
              : new Object[] {"id", row.id(), "_key", row.key(), "AGE", row.age(), "completion", row.completion(), "doc", row.doc()});
          if (some.size() == BATCH) {
            create(batch, some, people);
          }
        }
        create(batch, some, people);
      }
      try (BufferedReader rows = Files.newBufferedReader(data.resolve("friends.csv"))) {
        for (String line = rows.readLine(); line != null; line = rows.readLine()) {
          int comma = line.indexOf(',');
          RID from = people.get(Integer.parseInt(line, 0, comma, 10) - 1);
          RID to = people.get(Integer.parseInt(line, comma + 1, line.length(), 10) - 1);
          batch.newEdge(from, "Friend", to);
        }
      }
    }
    person.createTypeIndex(Schema.INDEX_TYPE.LSM_TREE, true, "_key");
    view = GraphAnalyticalView.builder(db).withName("friends").withVertexTypes("Person").withEdgeTypes("Friend")
        .withProperties("id", "AGE").build();
  }

  private static void create(GraphBatch batch, List<Object[]> rows, List<RID> people) {
    for (RID made : batch.createVertices("Person", rows.toArray(new Object[0][]))) {
      people.add(made);
    }
    rows.clear();
  }

  @Override
  long[] counts() {
    int bound = view.getNodeIdUpperBound();
    numbers = new long[bound];
    for (int node = 0; node < bound; node++) {
      numbers[node] = ((Number) view.getProperty(node, "id")).longValue();
    }
    return new long[] {db.countType("Person", false), view.getEdgeCount()};
  }

  private Vertex find(String key) {
    return db.lookupByKey("Person", "_key", key).next().asVertex();
  }

  @Override
  String read(String key) {
    return find(key).getString("doc");
  }

  @Override
  Map<Integer, Long> ages() {
    Map<Integer, Long> ages = new HashMap<>();
    try (ResultSet rows = db.query("sql", "SELECT AGE AS age, count(*) AS n FROM Person GROUP BY AGE")) {
      while (rows.hasNext()) {
        Result row = rows.next();
        Number age = row.getProperty("age");
        Number people = row.getProperty("n");
        ages.put(age == null ? -1 : age.intValue(), people.longValue());
      }
    }
    return ages;
  }

  @Override
  long[] neighbours(String key) {
    int start = view.getNodeId(find(key).getIdentity());
    BitSet seen = new BitSet(numbers.length);
    seen.set(start);
    int[] direct = view.getNeighborIds(start, Vertex.DIRECTION.OUT, "Friend");
    long[] found = new long[1024];
    int count = 0;
    for (int hop = -1; hop < direct.length; hop++) {
      int[] reached = hop < 0 ? direct : view.getNeighborIds(direct[hop], Vertex.DIRECTION.OUT, "Friend");
      if (count + reached.length > found.length) {
        found = java.util.Arrays.copyOf(found, (count + reached.length) * 2);
      }
      for (int other : reached) {
        if (!seen.get(other)) {
          seen.set(other);
          found[count++] = other;
        }
      }
    }
    return java.util.Arrays.copyOf(found, count);
  }

  @Override
  long number(long id) {
    return numbers[(int) id];
  }

  private List<String> property(String key, String name) {
    List<String> found = new ArrayList<>();
    for (long id : neighbours(key)) {
      found.add(view.getRID((int) id).asVertex().getString(name));
    }
    return found;
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
    try (ResultSet rows = db.query("opencypher", "MATCH (a:Person)-[:Friend]->(b:Person)-[:Friend]->(c:Person) RETURN count(*) AS n")) {
      return rows.next().<Number>getProperty("n").longValue();
    }
  }

  @Override
  int shortest(String from, String to) {
    String text = "SELECT shortestPath(?, ?, 'OUT', 'Friend').size() AS n";
    try (ResultSet rows = db.query("sql", text, find(from).getIdentity(), find(to).getIdentity())) {
      int people = rows.next().<Number>getProperty("n").intValue();
      return people == 0 ? -1 : people - 1;
    }
  }

  @Override
  void beginWrites(int batch) {
    written = "Written" + batch;
    db.getSchema().buildDocumentType().withName(written).withTotalBuckets(1).create().createProperty("_key", Type.STRING);
    db.getSchema().getType(written).createTypeIndex(Schema.INDEX_TYPE.LSM_TREE, true, "_key");
    db.begin();
    db.setWALFlush(WALFile.FlushType.NO);
    db.commit();
  }

  @Override
  void write(String key, String text) {
    db.begin();
    db.newDocument(written).set("_key", key).set("doc", text).save();
    db.commit();
  }

  @Override
  void endWrites() {
    db.begin();
    db.setWALFlush(WALFile.FlushType.YES_FULL);
    db.newDocument(written).set("_key", "end").save();
    db.commit();
  }

  @Override
  List<String> written() {
    List<String> found = new ArrayList<>();
    db.iterateType(written, false).forEachRemaining(record -> {
      String text = record.asDocument().getString("doc");
      if (text != null) {
        found.add(text);
      }
    });
    return found;
  }
}
