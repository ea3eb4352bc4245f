import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.client.AlterTableOptions;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduException;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.Operation;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RowResult;

/** What happens on a cluster, line by line, ids, addresses and times aside: the same on two clusters that behave alike. */
final class Transcript {
  /** Something that may be refused. */
  interface Attempt {
    Object run() throws Exception;
  }

  private static final Pattern ID = Pattern.compile("\\b[0-9a-f]{32}\\b");
  private static final Pattern ADDRESS = Pattern.compile("\\b127\\.\\d+\\.\\d+\\.\\d+:\\d+");
  private static final Pattern TIME = Pattern.compile("\\bP: \\d+ usec, L: \\d+");
  private static final Pattern SECONDS = Pattern.compile("-?\\b\\d+\\.\\d{3}s\\b");

  private final KuduClient client;

  Transcript(KuduClient client) {
    this.client = client;
  }

  void title(String text) {
    System.out.println("\n== " + text);
  }

  void say(String what, Object found) {
    System.out.println(what + ": " + masked(String.valueOf(found)));
  }

  /** Says how it ended: what came back, or the refusal. */
  void attempt(String what, Attempt attempt) {
    String ended;
    try {
      Object found = attempt.run();
      ended = found == null ? "done" : String.valueOf(found);
    } catch (KuduException e) {
      ended = "refused, " + e.getStatus();
    } catch (Exception e) {
      ended = "refused, " + e.getClass().getSimpleName() + ": " + e.getMessage();
    }
    say(what, ended);
  }

  private static String masked(String text) {
    text = ADDRESS.matcher(ID.matcher(text).replaceAll("ID")).replaceAll("ADDRESS");
    // One line, whatever a server prints.
    return SECONDS.matcher(TIME.matcher(text).replaceAll("TIME")).replaceAll("SECONDS").replace("\n", " ");
  }

  void alter(String what, String table, AlterTableOptions options) {
    attempt(what, () -> {
      client.alterTable(table, options);
      return client.isAlterTableDone(table) ? "done" : "not done";
    });
  }

  /** Columns with all that is known of them, partitions, owner, comment and properties. */
  void describe(String name) throws Exception {
    KuduTable table = client.openTable(name);
    for (ColumnSchema column : table.getSchema().getColumns()) {
      System.out.printf(
          "  %s %s key=%b unique=%b nullable=%b immutable=%b counted=%b default=%s %s %s block=%d attributes=%s comment=%s%n",
          column.getName(), column.getType(), column.isKey(), column.isKeyUnique(), column.isNullable(),
          column.isImmutable(), column.isAutoIncrementing(), column.getDefaultValue(), column.getEncoding(),
          column.getCompressionAlgorithm(), column.getDesiredBlockSize(), column.getTypeAttributes(),
          column.getComment());
    }
    for (String range : table.getFormattedRangePartitionsWithHashSchema(10_000)) {
      System.out.println("  range " + range);
    }
    System.out.printf(
        "  name=%s owner=%s comment=%s properties=%s replicas=%d tablets=%d%n", table.getName(), table.getOwner(),
        table.getComment(), table.getExtraConfig(), table.getNumReplicas(), client.newScanTokenBuilder(table).build().size());
  }

  /** Applies one operation and says how it ended. */
  void write(String what, Operation operation) {
    attempt(what, () -> {
      KuduSession session = client.newSession();
      try {
        OperationResponse response = session.apply(operation);
        return response.hasRowError() ? "row error, " + response.getRowError().getErrorStatus() : "done";
      } finally {
        session.close();
      }
    });
  }

  static Operation with(Operation operation, Object... cells) {
    PartialRow row = operation.getRow();
    for (int i = 0; i < cells.length; i += 2) {
      if (cells[i + 1] == null) {
        row.setNull((String) cells[i]);
      } else {
        row.addObject((String) cells[i], cells[i + 1]);
      }
    }
    return operation;
  }

  /** Says the rows of these columns, sorted as text. */
  void rows(String what, KuduTable table, String... columns) {
    attempt(what, () -> {
      KuduScanner scanner = client.newScannerBuilder(table).setProjectedColumnNames(List.of(columns)).build();
      List<String> rows = new ArrayList<>();
      while (scanner.hasMoreRows()) {
        for (RowResult row : scanner.nextRows()) {
          rows.add(row.rowToString());
        }
      }
      rows.sort(null);
      return rows.size() > 20 ? rows.size() + " rows" : rows.toString();
    });
  }
}
