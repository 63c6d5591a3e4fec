// Runs the tests of a program and prints their results in the format of Rust's test programs.

package harness;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

public class Harness {
    public static final String BOLT = System.getenv("BOLT");
    public static final String USER = "admin";
    public static final String PASSWORD = System.getenv("PASSWORD");

    public interface Test {
        void run() throws Exception;
    }

    private final String program;
    private final Map<String, Test> tests = new LinkedHashMap<>();

    public Harness(String program) {
        java.util.logging.LogManager.getLogManager().reset();
        this.program = program;
    }

    public Harness test(String name, Test test) {
        tests.put(name, test);
        return this;
    }

    public static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** Runs `test`, which must throw `kind`, and returns the error. */
    public static <E extends Throwable> E refused(Class<E> kind, Test test) {
        try {
            test.run();
        } catch (Throwable error) {
            if (kind.isInstance(error)) {
                return kind.cast(error);
            }
            throw new AssertionError("expected " + kind.getName(), error);
        }
        throw new AssertionError("expected " + kind.getName() + ", nothing was thrown");
    }

    /** Runs the tests in order, and exits with 1 if one failed. */
    public void run(String[] chosen) {
        tests.keySet().removeIf(name -> chosen.length > 0 && !List.of(chosen).contains(name));
        System.out.println("running " + tests.size() + " tests");
        var failures = new ArrayList<String>();
        for (var test : tests.entrySet()) {
            var name = program + "::" + test.getKey();
            var state = "ok";
            try {
                test.getValue().run();
            } catch (Throwable error) {
                var text = new StringWriter();
                error.printStackTrace(new PrintWriter(text));
                failures.add("---- " + name + " ----\n" + text);
                state = "FAILED";
            }
            System.out.println("test " + name + " ... " + state);
        }
        failures.forEach(System.out::println);
        System.out.printf("test result: %s. %d passed; %d failed; 0 ignored%n", failures.isEmpty() ? "ok" : "FAILED",
                tests.size() - failures.size(), failures.size());
        System.exit(failures.isEmpty() ? 0 : 1);
    }
}
