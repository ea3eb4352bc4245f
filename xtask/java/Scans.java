import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.AlterTableOptions;
import org.apache.kudu.client.AsyncKuduScanner.ReadMode;
import org.apache.kudu.client.AsyncKuduScanner.RowDataFormat;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduPredicate;
import org.apache.kudu.client.KuduPredicate.ComparisonOp;
import org.apache.kudu.client.KuduScanToken;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduScanner.KuduScannerBuilder;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.Operation;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.ReplicaSelection;
import org.apache.kudu.client.ResourceMetrics;
import org.apache.kudu.client.RowResult;
import org.apache.kudu.client.SessionConfiguration.FlushMode;

/**
 * Ways to read a table, told line by line. The cluster's tablet servers must forget idle scanners after two seconds and move
 * rows to files after one.
 */
final class Scans {
  private static final String NAME = "told.scans";
  private static final int ROWS = 300;
  /** Longer than scanners live. */
  private static final long A_WHILE = 3_500;

  private final KuduClient client;
  private final KuduClient other;
  private final Transcript told;
  /** After the rows were inserted, and after some were changed. */
  private long before;
  private long after;

  Scans(KuduClient client, KuduClient other) {
    this.client = client;
    this.other = other;
    this.told = new Transcript(client);
  }

  void run() throws Exception {
    KuduTable table = make(NAME, 3);
    KuduTable single = make(NAME + ".one", 1);
    forms(table);
    bounds(single);
    order(single);
    change(table);
    states(table);
    changes(table);
    ownWrites(single);
    leftAlone(single);
    tokens(table);
    files(table);
    told.title("changes in files");
    changes(table);
    goneTables(table);
    client.deleteTable(NAME + ".one");
    pieces();
    new Predicates(client).run();
  }

  private KuduTable make(String name, int tablets) throws Exception {
    Schema schema =
        new Schema(
            List.of(
                new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
                new ColumnSchemaBuilder("n", Type.INT32).nullable(true).build(),
                new ColumnSchemaBuilder("text", Type.STRING).build()));
    CreateTableOptions options = new CreateTableOptions().setNumReplicas(1).setRangePartitionColumns(List.of());
    if (tablets > 1) {
      options.addHashPartitions(List.of("id"), tablets);
    }
    KuduTable table = client.createTable(name, schema, options);
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.MANUAL_FLUSH);
    for (int id = 0; id < ROWS; id++) {
      session.apply(row(table.newInsert(), id, id % 7 == 0 ? null : id % 10));
    }
    session.flush();
    session.close();
    return table;
  }

  private static Operation row(Operation operation, int id, Integer n) {
    return Transcript.with(operation, "id", id, "n", n, "text", "text " + id);
  }

  /** The rows of a scan as text; of many, how many there are and which are the first and the last. */
  private void rows(String what, KuduScannerBuilder scan) {
    told.attempt(what, () -> summary(texts(scan.build())));
  }

  private static List<String> texts(KuduScanner scanner) throws Exception {
    List<String> rows = new ArrayList<>();
    while (scanner.hasMoreRows()) {
      for (RowResult row : scanner.nextRows()) {
        rows.add(row.rowToString() + (row.hasIsDeleted() && row.isDeleted() ? " gone" : ""));
      }
    }
    return rows;
  }

  private static String summary(List<String> rows) {
    Collections.sort(rows);
    if (rows.size() <= 8) {
      return rows.toString();
    }
    int distinct = new HashSet<>(rows).size();
    return rows.size() + " rows, " + distinct + " distinct, " + rows.get(0) + " to " + rows.get(rows.size() - 1);
  }

  private KuduScannerBuilder scan(KuduTable table) {
    return client.newScannerBuilder(table);
  }

  private void forms(KuduTable table) throws Exception {
    told.title("forms of a scan");
    ColumnSchema n = table.getSchema().getColumn("n");
    rows("plain", scan(table));
    rows("columns in another order", scan(table).setProjectedColumnNames(List.of("text", "id")).limit(1_000_000));
    rows("columns by number", scan(table).setProjectedColumnIndexes(List.of(2, 0)));
    told.attempt("no columns", () -> Rows.count(scan(table).setProjectedColumnNames(List.of()).build()));
    told.attempt("a column that is not there", () -> scan(table).setProjectedColumnNames(List.of("no")).build() != null);
    told.attempt("a column twice", () -> Rows.count(scan(table).setProjectedColumnNames(List.of("id", "id")).build()));
    for (long limit : new long[] {1, 7, 150, 299, 300, 301}) {
      told.attempt("limit " + limit, () -> Rows.count(scan(table).limit(limit).build()));
    }
    told.attempt("limit 0", () -> Rows.count(scan(table).limit(0).build()));
    told.attempt("limit -1", () -> Rows.count(scan(table).limit(-1).build()));
    told.attempt("a batch of less than nothing", () -> scan(table).batchSizeBytes(-1).build() != null);
    rows("small batches", scan(table).batchSizeBytes(1));
    rows("a condition and a limit",
        scan(table).addPredicate(KuduPredicate.newComparisonPredicate(n, ComparisonOp.EQUAL, 3)).limit(5_000));
    rows("a condition on a column that is not read",
        scan(table).setProjectedColumnNames(List.of("id"))
            .addPredicate(KuduPredicate.newComparisonPredicate(n, ComparisonOp.GREATER, 8)));
    rows("nothing kept in caches", scan(table).cacheBlocks(false));
    rows("the next batch asked for ahead", scan(table).prefetching(true).batchSizeBytes(500));
    rows("the closest replica", scan(table).replicaSelection(ReplicaSelection.CLOSEST_REPLICA));
    rows("with a query id", scan(table).setQueryId("a query of ours"));
    told.attempt("in columns", () -> {
      KuduScanner scanner = scan(table).batchSizeBytes(2000).build();
      scanner.setRowDataFormat(RowDataFormat.COLUMNAR);
      return summary(texts(scanner));
    });
    told.attempt("a scanner that is closed", () -> {
      KuduScanner scanner = scan(table).batchSizeBytes(1).build();
      scanner.nextRows();
      scanner.close();
      return scanner.isClosed() + " " + scanner.hasMoreRows();
    });
  }

  private void bounds(KuduTable table) throws Exception {
    told.title("bounds");
    int[][] pairs = {{10, 13}, {-5, 2}, {298, 1000}, {7, 7}, {8, 7}, {Integer.MIN_VALUE, Integer.MAX_VALUE}};
    for (int[] pair : pairs) {
      rows(pair[0] + " to " + pair[1], scan(table).lowerBound(key(table, pair[0])).exclusiveUpperBound(key(table, pair[1])));
    }
    rows("from 297", scan(table).lowerBound(key(table, 297)));
    rows("two lower ones", scan(table).lowerBound(key(table, 290)).lowerBound(key(table, 297)));
    ColumnSchema id = table.getSchema().getColumn("id");
    rows("with a condition on the key",
        scan(table).lowerBound(key(table, 100))
            .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.LESS, 104)));
  }

  private static PartialRow key(KuduTable table, int id) {
    PartialRow row = table.getSchema().newPartialRow();
    row.addInt("id", id);
    return row;
  }

  private void order(KuduTable table) throws Exception {
    told.title("in order");
    told.attempt("by key", () -> ids(scan(table).setFaultTolerant(true).build()).equals(upTo(ROWS)));
    told.attempt("by key, in small batches", () -> {
      KuduScanner scanner = scan(table).setFaultTolerant(true).batchSizeBytes(1).build();
      List<Integer> batches = new ArrayList<>();
      while (scanner.hasMoreRows()) {
        batches.add(scanner.nextRows().getNumRows());
      }
      batches.removeIf(rows -> rows == 0);
      return batches;
    });
    told.attempt("by key, with a limit", () -> ids(scan(table).setFaultTolerant(true).limit(5).build()));
    told.attempt("by key, without the key",
        () -> texts(scan(table).setFaultTolerant(true).setProjectedColumnNames(List.of("text")).limit(3).build()));
    told.attempt("by key, the newest state",
        () -> Rows.count(scan(table).setFaultTolerant(true).readMode(ReadMode.READ_LATEST).build()));
    told.attempt("by key, own writes",
        () -> Rows.count(scan(table).setFaultTolerant(true).readMode(ReadMode.READ_YOUR_WRITES).build()));
  }

  private static List<Integer> ids(KuduScanner scanner) throws Exception {
    List<Integer> ids = new ArrayList<>();
    while (scanner.hasMoreRows()) {
      scanner.nextRows().forEachRemaining(row -> ids.add(row.getInt("id")));
    }
    return ids;
  }

  private static List<Integer> upTo(int end) {
    List<Integer> numbers = new ArrayList<>();
    for (int number = 0; number < end; number++) {
      numbers.add(number);
    }
    return numbers;
  }

  /** What states and changes are about. */
  private void change(KuduTable table) throws Exception {
    before = client.getLastPropagatedTimestamp() + 1;
    told.title("changes are made");
    told.write("update", row(table.newUpdate(), 1, 100));
    told.write("update of it again", row(table.newUpdate(), 1, 101));
    told.write("update to what it was", row(table.newUpdate(), 2, 2));
    told.write("delete", Transcript.with(table.newDelete(), "id", 3));
    told.write("delete of another", Transcript.with(table.newDelete(), "id", 4));
    told.write("that comes back", row(table.newInsert(), 4, 400));
    told.write("insert", row(table.newInsert(), 1000, 1));
    told.write("insert of what will not stay", row(table.newInsert(), 1001, 1));
    told.write("delete of it", Transcript.with(table.newDelete(), "id", 1001));
    told.write("upsert", row(table.newUpsert(), 5, null));
    after = client.getLastPropagatedTimestamp() + 1;
    told.write("a change of afterwards", row(table.newUpdate(), 6, 600));
  }

  private void states(KuduTable table) throws Exception {
    told.title("states");
    rows("the newest", scan(table).readMode(ReadMode.READ_LATEST));
    rows("before the changes", at(table, before));
    rows("after them", at(table, after));
    rows("some moment of now", scan(table).readMode(ReadMode.READ_AT_SNAPSHOT));
    rows("the state of a row in between", at(table, after).lowerBound(key(table, 1)).exclusiveUpperBound(key(table, 7)));
    rows("in an hour", at(table, before + (3_600_000_000L << 12)));
    rows("long ago", at(table, 1L << 12));
    rows("in microseconds", scan(table).readMode(ReadMode.READ_AT_SNAPSHOT).snapshotTimestampMicros((after >> 12) + 1)
        .setProjectedColumnNames(List.of("id")).limit(100_000));
    told.attempt("a moment without its mode", () -> Rows.count(scan(table).snapshotTimestampRaw(before).build()));
  }

  private KuduScannerBuilder at(KuduTable table, long timestamp) {
    return scan(table).readMode(ReadMode.READ_AT_SNAPSHOT).snapshotTimestampRaw(timestamp);
  }

  private void changes(KuduTable table) throws Exception {
    told.title("what changed");
    ColumnSchema n = table.getSchema().getColumn("n");
    rows("all", scan(table).diffScan(before, after));
    rows("in small batches", scan(table).diffScan(before, after).batchSizeBytes(1));
    rows("of some columns", scan(table).diffScan(before, after).setProjectedColumnNames(List.of("text", "id")));
    rows("on a condition",
        scan(table).diffScan(before, after)
            .addPredicate(KuduPredicate.newComparisonPredicate(n, ComparisonOp.GREATER, 50)));
    rows("between bounds",
        scan(table).diffScan(before, after).lowerBound(key(table, 2)).exclusiveUpperBound(key(table, 5)));
    rows("in no time", scan(table).diffScan(after, after));
    told.attempt("since before there was a table", () -> Rows.count(scan(table).diffScan(before - (1L << 42), after).build()));
    rows("backwards", scan(table).diffScan(after, before));
    told.attempt("by tokens", () -> {
      List<String> rows = new ArrayList<>();
      for (KuduScanToken token : client.newScanTokenBuilder(table).diffScan(before, after).build()) {
        rows.addAll(texts(KuduScanToken.deserializeIntoScanner(token.serialize(), other)));
      }
      return summary(rows);
    });
  }

  private void ownWrites(KuduTable table) throws Exception {
    told.title("own writes");
    KuduTable theirs = other.openTable(table.getName());
    int seen = 0;
    for (int i = 0; i < 30; i++) {
      KuduSession session = client.newSession();
      session.apply(row(table.newInsert(), 10_000 + i, i));
      session.close();
      long mine = Rows.count(scan(table).readMode(ReadMode.READ_YOUR_WRITES).build());
      other.updateLastPropagatedTimestamp(client.getLastPropagatedTimestamp());
      long others = Rows.count(other.newScannerBuilder(theirs).readMode(ReadMode.READ_YOUR_WRITES).build());
      seen += mine == ROWS + i + 1 && others == mine ? 1 : 0;
    }
    told.say("seen by both", seen);
    for (int i = 0; i < 30; i++) {
      client.newSession().apply(Transcript.with(table.newDelete(), "id", 10_000 + i));
    }
  }

  private void leftAlone(KuduTable table) throws Exception {
    told.title("scanners that are left alone");
    KuduScanner plain = scan(table).batchSizeBytes(1).build();
    KuduScanner ordered = scan(table).batchSizeBytes(1).setFaultTolerant(true).build();
    KuduScanner kept = scan(table).batchSizeBytes(1).build();
    KuduScanner keeps = scan(table).batchSizeBytes(1).build();
    List<KuduScanner> all = List.of(plain, ordered, kept, keeps);
    List<Integer> firsts = new ArrayList<>();
    for (KuduScanner scanner : all) {
      firsts.add(scanner.nextRows().getNumRows());
    }
    told.say("first batches", firsts);
    told.say("kept by itself", keeps.startKeepAlivePeriodically(300));
    for (long end = System.currentTimeMillis() + A_WHILE; System.currentTimeMillis() < end;) {
      Thread.sleep(300);
      kept.keepAlive();
    }
    told.attempt("the rest of a plain one", () -> Rows.count(plain));
    told.attempt("the rest of a fault-tolerant one", () -> Rows.count(ordered));
    told.attempt("the rest of one that was kept alive", () -> Rows.count(kept));
    told.attempt("the rest of one that keeps itself alive", () -> Rows.count(keeps));
    told.attempt("keeping alive what is over", () -> {
      kept.keepAlive();
      return null;
    });
  }

  private void tokens(KuduTable table) throws Exception {
    told.title("tokens");
    ColumnSchema id = table.getSchema().getColumn("id");
    told.say("of a table", client.newScanTokenBuilder(table).build().size());
    opened("plain", client.newScanTokenBuilder(table));
    opened("of one row",
        client.newScanTokenBuilder(table).addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.EQUAL, 8)));
    opened("of no row",
        client.newScanTokenBuilder(table).addPredicate(KuduPredicate.newInListPredicate(id, List.of())));
    opened("in order", client.newScanTokenBuilder(table).setFaultTolerant(true).batchSizeBytes(1));
    opened("of another state",
        client.newScanTokenBuilder(table).readMode(ReadMode.READ_AT_SNAPSHOT).snapshotTimestampRaw(before));
    opened("with little in them",
        client.newScanTokenBuilder(table).includeTableMetadata(false).includeTabletMetadata(false));
    count("with a limit each", client.newScanTokenBuilder(table).limit(1).build());
    told.attempt("with a condition more", () -> {
      List<String> rows = new ArrayList<>();
      for (KuduScanToken token : client.newScanTokenBuilder(table).build()) {
        rows.addAll(texts(KuduScanToken.deserializeIntoScannerBuilder(token.serialize(), other)
            .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.LESS, 3)).build()));
      }
      return summary(rows);
    });
    byte[] first = client.newScanTokenBuilder(table).build().get(0).serialize();
    told.attempt("a half of one", () -> texts(
        KuduScanToken.deserializeIntoScanner(java.util.Arrays.copyOf(first, first.length / 2), other)).size() >= 0);
  }

  private void opened(String what, KuduScanToken.KuduScanTokenBuilder builder) {
    told.attempt(what, () -> {
      List<KuduScanToken> tokens = builder.build();
      List<String> rows = new ArrayList<>();
      for (KuduScanToken token : tokens) {
        rows.addAll(texts(KuduScanToken.deserializeIntoScanner(token.serialize(), other)));
      }
      return tokens.size() + " tokens, " + summary(rows);
    });
  }

  /** Returns when the rows of a table are in files, in all of its tablets. */
  static void waitForFiles(KuduClient client, KuduTable table) throws Exception {
    waitForFiles(client, table, Integer.MIN_VALUE);
  }

  /** Returns when those from this id on are. */
  private static void waitForFiles(KuduClient client, KuduTable table, int from) throws Exception {
    ColumnSchema id = table.getSchema().getColumnByIndex(0);
    KuduPredicate last = KuduPredicate.newComparisonPredicate(id, ComparisonOp.GREATER_EQUAL, from);
    for (KuduScanToken token : client.newScanTokenBuilder(table).addPredicate(last).build()) {
      for (int i = 0; ; i++) {
        KuduScanner scanner = token.intoScanner(client);
        Rows.count(scanner);
        // Files without such a key are not read.
        if (scanner.getResourceMetrics().getMetric("bytes_read") > 0) {
          break;
        }
        if (i > 600) {
          throw new IllegalStateException("rows stay in memory");
        }
        Thread.sleep(100);
      }
    }
  }

  private void files(KuduTable table) throws Exception {
    told.title("rows in files");
    waitForFiles(client, table);
    rows("plain", scan(table));
    rows("before the changes", at(table, before));
    KuduScanner scanner = scan(table).build();
    told.say("costs before", new TreeMap<>(scanner.getResourceMetrics().get()));
    Rows.count(scanner);
    ResourceMetrics costs = scanner.getResourceMetrics();
    Map<String, Long> all = new TreeMap<>(costs.get());
    told.say("costs", all.keySet());
    told.say("none below zero", all.values().stream().allMatch(cost -> cost >= 0));
    told.say("time", costs.getMetric("total_duration_nanos") > 0
        && costs.getMetric("total_duration_nanos") >= costs.getMetric("queue_duration_nanos"));
    told.say("bytes", costs.getMetric("bytes_read") > 0
        && costs.getMetric("cfile_cache_hit_bytes") + costs.getMetric("cfile_cache_miss_bytes") > 0);
  }

  /** Tablets cut by size: where, and whether at all, is each server's own affair. */
  private void pieces() throws Exception {
    told.title("pieces");
    KuduTable table = make(NAME + ".big", 2);
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.MANUAL_FLUSH);
    session.setMutationBufferSpace(1000);
    for (int id = ROWS; id < 5_000; id++) {
      String text = "row " + id + " of much text".repeat(20);
      session.apply(Transcript.with(table.newInsert(), "id", id, "n", id, "text", text));
      if (id % 1000 == 999) {
        session.flush();
      }
    }
    waitForFiles(client, table, 4_990);
    session.close();
    for (long bytes : new long[] {1L << 40, 100_000}) {
      List<KuduScanToken> pieces = client.newScanTokenBuilder(table).setSplitSizeBytes(bytes).build();
      Set<Integer> rows = new HashSet<>();
      int read = 0;
      for (KuduScanToken piece : pieces) {
        List<Integer> found = ids(KuduScanToken.deserializeIntoScanner(piece.serialize(), other));
        read += found.size();
        rows.addAll(found);
      }
      told.say("rows in pieces of " + bytes + " bytes", read + ", " + rows.size() + " distinct");
    }
    client.deleteTable(NAME + ".big");
  }

  /** Tokens outlive names and columns, not tables. */
  private void goneTables(KuduTable table) throws Exception {
    told.title("tokens of before");
    List<KuduScanToken> with = client.newScanTokenBuilder(table).build();
    List<KuduScanToken> without = client.newScanTokenBuilder(table).includeTableMetadata(false).build();
    client.alterTable(NAME, new AlterTableOptions().renameTable(NAME + ".renamed"));
    count("of the renamed table", with);
    count("of the renamed table, without its columns", without);
    told.alter("drop a column", NAME + ".renamed", new AlterTableOptions().dropColumn("n"));
    count("with a column that is gone", with);
    count("with a column that is gone, without its columns", without);
    client.deleteTable(NAME + ".renamed");
    // Its tablets end in the background.
    Thread.sleep(2_000);
    count("of no table", with);
    count("of no table, without its columns", without);
  }

  private void count(String what, List<KuduScanToken> tokens) {
    told.attempt(what, () -> {
      long rows = 0;
      for (KuduScanToken token : tokens) {
        rows += Rows.count(KuduScanToken.deserializeIntoScanner(token.serialize(), other));
      }
      return rows;
    });
  }
}
