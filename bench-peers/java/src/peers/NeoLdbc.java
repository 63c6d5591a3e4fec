package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;
import org.neo4j.graphdb.GraphDatabaseService;
import org.neo4j.graphdb.Result;
import org.neo4j.graphdb.Transaction;

/**
 * The reads of LDBC's interactive workload on Neo4j in this process: {@code NeoLdbc DATA QUERIES FOLDER PASSES}. DATA is what
 * {@code ldbc generate} wrote. The number of rows of each run must be the one expected; the time of a run is that of its
 * fastest pass.
 */
final class NeoLdbc {
  private record Run(String query, int rows, Map<String, Object> parameters) {}

  /** Label and property of the indexes, as in the loader of the other side. */
  private static final String[] INDEXED = {
    "City(id)", "Comment(id)", "Country(id)", "Country(name)", "Forum(id)", "Message(id)", "Organisation(id)", "Person(firstName)",
    "Person(id)", "Place(id)", "Post(id)", "Tag(id)", "Tag(name)", "TagClass(id)"
  };

  private NeoLdbc() {}

  public static void main(String[] arguments) throws Exception {
    Path data = Path.of(arguments[0]);
    Path queries = Path.of(arguments[1]);
    Path home = Path.of(arguments[2]).resolve("neo4j").toAbsolutePath();
    load(data, home);
    DatabaseManagementService service = new DatabaseManagementServiceBuilder(home)
        .setConfig(GraphDatabaseSettings.pagecache_memory, 1L << 30)
        .build();
    try {
      GraphDatabaseService db = service.database("neo4j");
      index(db);
      measure(db, queries, runs(data.resolve("runs.tsv")), Integer.parseInt(arguments[3]));
    } finally {
      service.shutdown();
    }
  }

  private static void load(Path data, Path home) throws IOException, InterruptedException {
    Files.createDirectories(home.resolve("conf"));
    Files.writeString(home.resolve("conf/neo4j.conf"), "server.directories.neo4j_home=" + home + "\n");
    List<String> command = new ArrayList<>(List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx2g", "-cp", System.getProperty("java.class.path"),
        "org.neo4j.cli.AdminTool", "database", "import", "full", "neo4j", "--id-type=integer", "--quote=\"", "--array-delimiter=;"));
    try (Stream<Path> files = Files.list(data)) {
      files.filter(file -> file.toString().endsWith(".csv")).forEach(file -> {
        // N-nodes-A.B.csv or N-relationships-TYPE.csv
        String[] parts = file.getFileName().toString().replace(".csv", "").split("-", 3);
        command.add("--" + parts[1] + "=" + parts[2].replace('.', ':') + "=" + file.toAbsolutePath());
      });
    }
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("NEO4J_HOME", home.toString());
    builder.environment().put("NEO4J_CONF", home.resolve("conf").toString());
    Process importing = builder.redirectOutput(home.resolve("import.log").toFile()).start();
    if (importing.waitFor() != 0) {
      throw new IOException("the importer failed: " + Files.readString(home.resolve("import.log")).strip());
    }
  }

  private static void index(GraphDatabaseService db) {
    for (String one : INDEXED) {
      String label = one.substring(0, one.indexOf('('));
      String property = one.substring(one.indexOf('(') + 1, one.length() - 1);
      db.executeTransactionally("CREATE INDEX FOR (n:" + label + ") ON (n." + property + ")");
    }
    try (Transaction tx = db.beginTx()) {
      tx.schema().awaitIndexesOnline(10, TimeUnit.MINUTES);
    }
  }

  private static List<Run> runs(Path file) throws IOException {
    List<Run> runs = new ArrayList<>();
    for (String line : Files.readAllLines(file)) {
      String[] parts = line.split("\t");
      Map<String, Object> parameters = new HashMap<>();
      for (String part : Arrays.asList(parts).subList(2, parts.length)) {
        String name = part.substring(part.indexOf(':') + 1, part.indexOf('='));
        String value = part.substring(part.indexOf('=') + 1);
        parameters.put(name, part.startsWith("long:") ? (Object) Long.valueOf(value) : value);
      }
      runs.add(new Run(parts[0], Integer.parseInt(parts[1]), parameters));
    }
    return runs;
  }

  private static void measure(GraphDatabaseService db, Path queries, List<Run> runs, int passes) throws IOException {
    double[] best = new double[runs.size()];
    Arrays.fill(best, Double.MAX_VALUE);
    for (int pass = 0; pass < passes; pass++) {
      for (int at = 0; at < best.length; at++) {
        Run run = runs.get(at);
        String text = Files.readString(queries.resolve("interactive").resolve(run.query() + ".cypher"));
        long started = System.nanoTime();
        int rows = 0;
        try (Transaction tx = db.beginTx(); Result result = tx.execute(text, run.parameters())) {
          while (result.hasNext()) {
            result.next();
            rows++;
          }
        }
        best[at] = Math.min(best[at], (System.nanoTime() - started) / 1e3);
        if (rows != run.rows()) {
          throw new IOException(run.query() + ": " + rows + " rows instead of " + run.rows() + " with " + run.parameters());
        }
      }
    }
    Map<String, List<Double>> times = new TreeMap<>();
    for (int at = 0; at < best.length; at++) {
      times.computeIfAbsent(runs.get(at).query(), name -> new ArrayList<>()).add(best[at]);
    }
    times.forEach((query, of) -> {
      of.sort(null);
      System.out.printf("{\"system\": \"neo4j\", \"case\": \"%s\", \"median_us\": %.0f, \"max_us\": %.0f}%n", query, of.get(of.size() / 2), of.get(of.size() - 1));
    });
  }
}
