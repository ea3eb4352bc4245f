import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.Operation;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.RowError;
import org.apache.kudu.client.RowErrorsAndOverflowStatus;
import org.apache.kudu.client.SessionConfiguration.FlushMode;

/** What a session tells about rows that could not be written. */
final class Sessions {
  private final KuduClient client;

  Sessions(KuduClient client) {
    this.client = client;
  }

  private static Operation with(Operation operation, int id, String text) {
    operation.getRow().addInt("id", id);
    if (text != null) {
      operation.getRow().addString("text", text);
    }
    return operation;
  }

  void errorsForEachRow() throws Exception {
    KuduTable table = client.createTable("java.errors", Definitions.small(), Definitions.byHash("id", 2));
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.MANUAL_FLUSH);
    session.apply(with(table.newInsert(), 1, "one"));
    session.apply(with(table.newInsert(), 2, "two"));
    session.apply(with(table.newInsert(), 1, "again"));
    session.apply(with(table.newUpdate(), 7, "seven"));
    session.apply(with(table.newDelete(), 8, null));
    session.apply(with(table.newUpsert(), 2, "two!"));
    session.apply(with(table.newInsert(), 3, "three"));
    List<OperationResponse> responses = session.flush();
    Checks.equal(7, responses.size(), "responses");
    List<String> found = new ArrayList<>();
    for (OperationResponse response : responses) {
      if (response.hasRowError()) {
        RowError error = response.getRowError();
        int id = error.getOperation().getRow().getInt("id");
        String status = error.getErrorStatus().isAlreadyPresent() ? "already present"
            : error.getErrorStatus().isNotFound() ? "not found" : error.toString();
        found.add(id + " " + status);
      }
    }
    // Responses of one tablet keep the order of apply; those of two tablets come one after the other.
    Checks.equal(Set.of("1 already present", "7 not found", "8 not found"), Set.copyOf(found), "errors");
    Checks.equal(3, found.size(), "errors");
    session.close();
    Checks.equal(3, Rows.count(client.newScannerBuilder(table).build()), "rows");
    client.deleteTable("java.errors");
  }

  void ignoringOperations() throws Exception {
    KuduTable table = client.createTable("java.ignore", Definitions.small(), Definitions.byHash("id", 2));
    KuduSession session = client.newSession();
    Checks.holds(client.supportsIgnoreOperations(), "the master does not offer them");
    List<Operation> operations = List.of(
        with(table.newInsertIgnore(), 1, "one"),
        with(table.newInsertIgnore(), 1, "again"),
        with(table.newUpdateIgnore(), 7, "seven"),
        with(table.newDeleteIgnore(), 8, null),
        with(table.newUpsertIgnore(), 2, "two"));
    for (Operation operation : operations) {
      OperationResponse response = session.apply(operation);
      Checks.holds(!response.hasRowError(), String.valueOf(response.getRowError()));
    }
    Checks.equal(1L, session.getWriteOpMetrics().getMetric("insert_ignore_errors"), "ignored inserts");
    Checks.equal(1L, session.getWriteOpMetrics().getMetric("update_ignore_errors"), "ignored updates");
    Checks.equal(1L, session.getWriteOpMetrics().getMetric("delete_ignore_errors"), "ignored deletes");
    session.close();
    Checks.equal(2, Rows.count(client.newScannerBuilder(table).build()), "rows");
    client.deleteTable("java.ignore");
  }

  /** 8 threads apply 100,000 rows, every tenth a duplicate, while another one flushes all the time. */
  void flushBesideBackgroundFlush() throws Exception {
    int threads = 8;
    int perThread = 12_500;
    KuduTable table = client.createTable("java.flush", Definitions.small(), Definitions.byHash("id", 4));
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.AUTO_FLUSH_BACKGROUND);
    session.setErrorCollectorSpace(20_000);
    Object applying = new Object();
    AtomicBoolean done = new AtomicBoolean();
    ExecutorService pool = Executors.newCachedThreadPool();
    Future<Integer> flusher = pool.submit(() -> {
      int flushes = 0;
      while (!done.get()) {
        session.flush();
        flushes++;
        Thread.sleep(1);
      }
      return flushes;
    });
    List<Future<?>> writers = new ArrayList<>();
    for (int thread = 0; thread < threads; thread++) {
      int first = thread * perThread;
      writers.add(pool.submit(() -> {
        for (int id = first; id < first + perThread; id++) {
          Operation insert = with(table.newInsert(), id % 10 == 9 ? id - 1 : id, "x");
          // Two calls of apply() at a time are too much for the Java client itself; apply() beside flush() is not.
          synchronized (applying) {
            session.apply(insert);
          }
        }
        return null;
      }));
    }
    for (Future<?> writer : writers) {
      writer.get();
    }
    done.set(true);
    Checks.holds(flusher.get() > 10, "the other thread hardly flushed");
    pool.shutdown();
    session.flush();
    RowErrorsAndOverflowStatus pending = session.getPendingErrors();
    Checks.holds(!pending.isOverflowed(), "errors were dropped");
    Set<Integer> duplicates = new TreeSet<>();
    for (RowError error : pending.getRowErrors()) {
      Checks.holds(error.getErrorStatus().isAlreadyPresent(), error.toString());
      int id = error.getOperation().getRow().getInt("id");
      Checks.holds(id % 10 == 8 && duplicates.add(id), "an error for row " + id);
    }
    Checks.equal(threads * perThread / 10, duplicates.size(), "errors");
    session.close();
    Checks.equal(threads * perThread / 10 * 9, Rows.count(client.newScannerBuilder(table).build()), "rows");
    client.deleteTable("java.flush");
  }
}
