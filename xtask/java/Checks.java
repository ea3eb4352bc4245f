import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;

/** Runs checks and reports them as cargo's test runner does. */
final class Checks {
  /** One check; it fails by throwing. */
  interface Check {
    void run() throws Exception;
  }

  private final long start = System.nanoTime();
  private final List<String> failed = new ArrayList<>();
  private int passed;

  void run(String name, Check check) {
    try {
      check.run();
      passed++;
      System.out.println("test java::" + name + " ... ok");
    } catch (Exception | AssertionError e) {
      failed.add(name);
      System.out.println("test java::" + name + " ... FAILED");
      e.printStackTrace(System.out);
    }
  }

  /** Prints the result; the exit code of the program. */
  int finish() {
    System.out.printf(
        Locale.ROOT,
        "%ntest result: %s. %d passed; %d failed; 0 ignored; 0 measured; 0 filtered out; finished in %.2fs%n%n",
        failed.isEmpty() ? "ok" : "FAILED", passed, failed.size(), (System.nanoTime() - start) / 1e9);
    return failed.isEmpty() ? 0 : 1;
  }

  static void equal(Object expected, Object found, String what) {
    if (!Objects.equals(expected, found)) {
      throw new AssertionError(what + ": expected " + expected + ", found " + found);
    }
  }

  static void holds(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }
}
