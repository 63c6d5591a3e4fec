package peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/**
 * What every system on this machine does: take jobs from standard input, time them, answer in one line of JSON each. The
 * answers are those of the Python peers: see peer.py.
 */
abstract class Peer {
  /** A profile as far as it is checked. */
  record Profile(long number, long age, long completion) {}

  /** A path to look for. */
  record Pair(String from, String to) {}

  /** Asks a question. */
  interface Ask<Q> {
    Object ask(Q question) throws Exception;
  }

  /** Where a job is not offered. */
  static final class NotOffered extends Exception {
    private static final long serialVersionUID = 1;
  }

  /** Passes that warm the compiler up: until this much time has passed, or this many. */
  private static final double WARM_UP_S = 3;

  private static final int WARM_UP_PASSES = 5;
  /** A first pass that takes longer than this is not repeated: it counts. */
  private static final double LONG_S = 5;

  final Path data;
  final Path folder;
  private final List<String> keys;
  private final List<String> starts;
  private final List<Pair> pairs = new ArrayList<>();
  private final List<Pair> apart = new ArrayList<>();
  private int batches;

  Peer(String data, String folder) throws IOException {
    this.data = Path.of(data);
    this.folder = Path.of(folder);
    keys = Files.readAllLines(this.data.resolve("keys.txt"));
    starts = Files.readAllLines(this.data.resolve("starts.txt"));
    for (String line : Files.readAllLines(this.data.resolve("pairs.tsv"))) {
      String[] parts = line.split("\t");
      (parts[2].equals("-1") ? apart : pairs).add(new Pair(parts[0], parts[1]));
    }
  }

  /** Loads both files; durable at the end. */
  abstract void load() throws Exception;

  /** People and relationships. */
  abstract long[] counts() throws Exception;

  /** The text of a profile. */
  abstract String read(String key) throws Exception;

  /** How many people there are of each age; -1 for none. */
  abstract Map<Integer, Long> ages() throws Exception;

  /** The people at one or two steps, as the system's ids. */
  abstract long[] neighbours(String key) throws Exception;

  /** The number of the person with an id. */
  abstract long number(long id);

  /** The people at one or two steps, as keys. */
  abstract List<String> neighbourKeys(String key) throws Exception;

  /** The same as texts of their profiles. */
  abstract List<String> neighbourProfiles(String key) throws Exception;

  abstract long countPaths() throws Exception;

  /** The length of the shortest path; -1 for none. */
  abstract int shortest(String from, String to) throws Exception;

  /** Makes a place for new profiles. */
  abstract void beginWrites(int batch) throws Exception;

  abstract void write(String key, String text) throws Exception;

  /** Everything is on disk. */
  abstract void endWrites() throws Exception;

  abstract List<String> written() throws Exception;

  /** Answers jobs until there are no more. */
  void serve() throws IOException {
    PrintStream out = System.out;
    System.setOut(System.err); // whatever a system prints is no answer
    BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
    for (String job = jobs.readLine(); job != null; job = jobs.readLine()) {
      String told;
      try {
        told = run(job);
      } catch (NotOffered none) {
        told = "\"skipped\":\"not offered\"";
      } catch (Exception | LinkageError error) {
        error.printStackTrace();
        told = "\"error\":" + quoted(error.toString());
      }
      out.println("{\"job\":" + quoted(job) + "," + told + "}");
      out.flush();
    }
  }

  private String run(String job) throws Exception {
    List<String> answer = new ArrayList<>();
    switch (job) {
      case "import": {
        Watch watch = new Watch();
        load();
        String timed = watch.timed(null);
        long[] counts = counts();
        answer.add(counts[0] + " people, " + counts[1] + " relationships");
        return timed + answered(answer);
      }
      case "single_reads": {
        Tally tally = new Tally();
        String timed = passes(keys, this::read, (key, found) -> tally.add((String) found));
        answer.add(tally.toString());
        return timed + answered(answer);
      }
      case "aggregate_age": {
        long start = System.nanoTime();
        Map<Integer, Long> found = new TreeMap<>(ages());
        double first = (System.nanoTime() - start) / 1e9;
        Long none = found.remove(-1);
        found.forEach((age, people) -> answer.add(age + " " + people));
        if (none != null) {
          answer.add("none " + none);
        }
        String timed = passes(List.of(1, 2, 3, 4, 5), round -> ages(), (round, ages) -> {});
        return timed + ",\"first_s\":" + first + answered(answer);
      }
      case "neighbors2":
        return passes(starts, this::neighbours, (key, found) ->
            answer.add(setLine(key, Arrays.stream((long[]) found).map(this::number).toArray())))
            + answered(answer);
      case "neighbors2_keys":
        return passes(starts, this::neighbourKeys, (key, found) ->
            answer.add(setLine(key, strings(found).stream().mapToLong(Peer::numberOf).toArray())))
            + answered(answer);
      case "neighbors2_profiles":
        return passes(starts, this::neighbourProfiles, (key, found) -> {
          Tally tally = new Tally();
          strings(found).forEach(tally::add);
          answer.add(key + ": " + tally);
        }) + answered(answer);
      case "count_paths2":
        return passes(List.of(1), one -> countPaths(), (one, found) -> answer.add(found.toString()))
            + answered(answer);
      case "shortest_path":
      case "no_path":
        return passes(job.equals("no_path") ? apart : pairs, pair -> shortest(pair.from, pair.to), (pair, found) ->
            answer.add(pair.from + " " + pair.to + " " + (found.equals(-1) ? "none" : found)))
            + answered(answer);
      case "single_writes_buffered":
        return writes(answer) + answered(answer);
      default:
        throw new NotOffered();
    }
  }

  private String writes(List<String> answer) throws Exception {
    List<String> texts = Files.readAllLines(data.resolve("profiles.jsonl"));
    List<String> names = new ArrayList<>();
    List<String> documents = new ArrayList<>();
    for (int at = 0; at < keys.size(); at++) {
      String old = texts.get(at % texts.size());
      names.add("P" + (at + 1));
      documents.add("{\"_key\":\"" + names.get(at) + "\"" + old.substring(old.indexOf(',')));
    }
    beginWrites(++batches);
    long[] times = new long[names.size()];
    Watch watch = new Watch();
    for (int at = 0; at < times.length; at++) {
      long start = System.nanoTime();
      write(names.get(at), documents.get(at));
      times[at] = System.nanoTime() - start;
    }
    endWrites();
    String timed = watch.timed(times);
    Tally tally = new Tally();
    written().forEach(tally::add);
    answer.add(tally.toString());
    return timed;
  }

  /** Asks all to look at the answers, again to warm up, and once with the clock running, unless that takes long. */
  private static <Q> String passes(List<Q> questions, Ask<Q> ask, BiConsumer<Q, Object> look) throws Exception {
    long[] times = new long[questions.size()];
    Watch first = new Watch();
    long sum = 0;
    for (int at = 0; at < times.length; at++) {
      long start = System.nanoTime();
      Object found = ask.ask(questions.get(at));
      times[at] = System.nanoTime() - start;
      sum += times[at];
      look.accept(questions.get(at), found);
    }
    if (sum > LONG_S * 1e9) {
      return first.timed(times, sum);
    }
    Watch warm = new Watch();
    for (int pass = 0; pass < WARM_UP_PASSES && warm.seconds() < WARM_UP_S; pass++) {
      for (Q question : questions) {
        ask.ask(question);
      }
    }
    Watch watch = new Watch();
    for (int at = 0; at < times.length; at++) {
      long start = System.nanoTime();
      ask.ask(questions.get(at));
      times[at] = System.nanoTime() - start;
    }
    return watch.timed(times);
  }

  /** Wall and processor time of this process from now on. */
  private static final class Watch {
    private final long wall = System.nanoTime();
    private final long cpu = cpu();

    private static long cpu() {
      return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
          .getProcessCpuTime();
    }

    double seconds() {
      return (System.nanoTime() - wall) / 1e9;
    }

    String timed(long[] times) {
      long taken = System.nanoTime() - wall;
      return timed(times == null ? new long[] {taken} : times, taken);
    }

    String timed(long[] times, long taken) {
      double used = (cpu() - cpu) / 1e9;
      long[] ordered = times.clone();
      Arrays.sort(ordered);
      double middle = ordered[(int) Math.round((ordered.length - 1) * 0.5)] / 1e3;
      double high = ordered[(int) Math.round((ordered.length - 1) * 0.99)] / 1e3;
      return "\"seconds\":" + taken / 1e9 + ",\"n\":" + times.length + ",\"p50_us\":" + middle + ",\"p99_us\":" + high
          + ",\"cpu_s\":" + used;
    }
  }

  /** Sums over profiles: anything missing shows in them. */
  private static final class Tally {
    private long count;
    private long keys;
    private long ages;
    private long completion;

    void add(String text) {
      count++;
      keys += numberAfter(text, "\"_key\":\"P", 0);
      ages += numberAfter(text, "\"AGE\":", 0);
      completion += numberAfter(text, "\"completion\":", 0);
    }

    @Override
    public String toString() {
      return count + " profiles, keys " + keys + ", ages " + ages + ", completion " + completion;
    }
  }

  static long numberAfter(String text, String name, long none) {
    int at = text.indexOf(name);
    if (at < 0) {
      return none;
    }
    long number = 0;
    for (at += name.length(); at < text.length() && Character.isDigit(text.charAt(at)); at++) {
      number = number * 10 + text.charAt(at) - '0';
    }
    return number;
  }

  static long numberOf(String key) {
    return Long.parseLong(key.substring(1));
  }

  private static String setLine(String key, long[] numbers) {
    long sum = 0;
    long squares = 0;
    for (long number : numbers) {
      sum += number;
      squares += number * number;
    }
    return key + " " + numbers.length + " " + Long.toUnsignedString(sum) + " " + Long.toUnsignedString(squares);
  }

  @SuppressWarnings("unchecked")
  private static List<String> strings(Object found) {
    return (List<String>) found;
  }

  private static String answered(List<String> answer) {
    StringBuilder out = new StringBuilder(",\"answer\":[");
    for (int at = 0; at < answer.size(); at++) {
      out.append(at == 0 ? "" : ",").append(quoted(answer.get(at)));
    }
    return out.append(']').toString();
  }

  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char letter : text.toCharArray()) {
      if (letter == '"' || letter == '\\') {
        out.append('\\').append(letter);
      } else if (letter < ' ') {
        out.append(String.format("\\u%04x", (int) letter));
      } else {
        out.append(letter);
      }
    }
    return out.append('"').toString();
  }

  /** One line of people.csv: number, key, age or nothing, completion, document. */
  record Row(int id, String key, Integer age, int completion, String doc) {
    static Row parse(String line) {
      String[] parts = line.split(",", 5);
      String doc = parts[4].substring(1, parts[4].length() - 1).replace("\"\"", "\"");
      Integer age = parts[2].isEmpty() ? null : Integer.valueOf(parts[2]);
      return new Row(Integer.parseInt(parts[0]), parts[1], age, Integer.parseInt(parts[3]), doc);
    }
  }
}
