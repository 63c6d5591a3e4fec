package peers;

import com.google.common.collect.ArrayListMultimap;
import com.google.common.collect.Multimap;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;

/**
 * GuancialeDB's graph and its recommendation, rewritten from its author's description: string ids, a multimap of lists each
 * way, a LongAdder for each item that is counted, everything sorted for the ten best. Ties go by key, so that there is one
 * right answer. Steps come from standard input: `load SHAPE`, `recommend SECONDS`.
 */
final class Guanciale {
  private final Path data;
  private Multimap<String, String> likes;
  private Multimap<String, String> likedBy;
  private List<String> asked;

  private Guanciale(Path data) {
    this.data = data;
  }

  public static void main(String[] arguments) throws IOException {
    Guanciale graph = new Guanciale(Path.of(arguments[0]));
    BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
    for (String step = steps.readLine(); step != null; step = steps.readLine()) {
      String[] words = step.split(" ");
      System.out.println(words[0].equals("load") ? graph.load(words[1]) : graph.measure(Double.parseDouble(words[1])));
      System.out.flush();
    }
  }

  private String load(String shape) throws IOException {
    likes = ArrayListMultimap.create();
    likedBy = ArrayListMultimap.create();
    long start = System.nanoTime();
    try (BufferedReader rows = Files.newBufferedReader(data.resolve("likes_" + shape + ".tsv"))) {
      for (String line = rows.readLine(); line != null; line = rows.readLine()) {
        String[] pair = line.split("\t");
        likes.put("person" + pair[0], "item" + pair[1]);
        likedBy.put("item" + pair[1], "person" + pair[0]);
      }
    }
    double seconds = (System.nanoTime() - start) / 1e9;
    asked = new ArrayList<>();
    for (String person : Files.readAllLines(data.resolve("asked_" + shape + ".txt"))) {
      asked.add("person" + person);
    }
    return "{\"step\":\"load\",\"seconds\":" + seconds + "}";
  }

  private List<Map.Entry<String, LongAdder>> recommend(String person) {
    Set<String> liked = new HashSet<>(likes.get(person));
    Map<String, LongAdder> occurrences = new HashMap<>();
    for (String item : liked) {
      for (String other : new HashSet<>(likedBy.get(item))) {
        for (String another : new HashSet<>(likes.get(other))) {
          occurrences.computeIfAbsent(another, key -> new LongAdder()).increment();
        }
      }
    }
    List<Map.Entry<String, LongAdder>> items = new ArrayList<>(occurrences.entrySet());
    items.sort(Comparator.comparingLong((Map.Entry<String, LongAdder> entry) -> -entry.getValue().sum())
        .thenComparing(Map.Entry::getKey));
    return items.subList(0, Math.min(items.size(), 10));
  }

  private String measure(double seconds) {
    StringBuilder answer = new StringBuilder();
    long warm = System.nanoTime();
    for (String person : asked.subList(0, 40)) {
      StringBuilder line = new StringBuilder(person).append(": ");
      String separator = "";
      for (Map.Entry<String, LongAdder> entry : recommend(person)) {
        line.append(separator).append(entry.getKey()).append(' ').append(entry.getValue().sum());
        separator = ", ";
      }
      answer.append(answer.length() == 0 ? "" : ",").append(Peer.quoted(line.toString()));
      if ((System.nanoTime() - warm) / 1e9 > 5 * seconds) {
        break; // the driver compares as many lines as it gets
      }
    }
    long start = System.nanoTime();
    while ((System.nanoTime() - start) / 1e9 < seconds) {
      recommend(asked.get((int) (System.nanoTime() % asked.size()))); // warms the compiler up
    }
    start = System.nanoTime();
    int operations = 0;
    while (operations < 3 || (System.nanoTime() - start) / 1e9 < seconds) {
      recommend(asked.get(operations % asked.size()));
      operations++;
    }
    double rate = operations / ((System.nanoTime() - start) / 1e9);
    return "{\"step\":\"recommend\",\"ops_s\":" + rate + ",\"n\":" + operations + ",\"answer\":[" + answer + "]}";
  }
}
