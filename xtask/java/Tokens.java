import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.Schema;
import org.apache.kudu.client.AsyncKuduScanner.ReadMode;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduPartitioner;
import org.apache.kudu.client.KuduPredicate;
import org.apache.kudu.client.KuduPredicate.ComparisonOp;
import org.apache.kudu.client.KuduScanToken;
import org.apache.kudu.client.KuduScanToken.KuduScanTokenBuilder;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.ReplicaSelection;
import org.apache.kudu.client.RowResult;

/**
 * Scan tokens to and from another client, through files. A line is a name, a token in hex, and each of its rows as text, sorted
 * and separated by tabs. The table has the key columns id (INT64) and s (STRING), and others.
 */
final class Tokens {
  private final KuduClient client;

  Tokens(KuduClient client) {
    this.client = client;
  }

  /** Makes tokens of all kinds, and the numbers of the partitions in which the table's rows are. */
  void make(String name, long start, long end, Path file) throws Exception {
    KuduTable table = client.openTable(name);
    try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
      for (Map.Entry<String, KuduScanTokenBuilder> kind : kinds(table, start, end).entrySet()) {
        for (KuduScanToken token : kind.getValue().build()) {
          byte[] bytes = token.serialize();
          out.println(String.join("\t", kind.getKey(), hex(bytes), String.join("\t", rows(bytes))));
        }
      }
      KuduPartitioner partitioner = new KuduPartitioner.KuduPartitionerBuilder(table).build();
      List<String> placed = new ArrayList<>();
      KuduScanner scanner = client.newScannerBuilder(table).build();
      while (scanner.hasMoreRows()) {
        for (RowResult found : scanner.nextRows()) {
          PartialRow row = table.getSchema().newPartialRow();
          row.addLong("id", found.getLong("id"));
          row.addString("s", found.getString("s"));
          String key = found.getLong("id") + "|" + hex(found.getString("s").getBytes(StandardCharsets.UTF_8));
          placed.add(key + "|" + partitioner.partitionRow(row));
        }
      }
      Collections.sort(placed);
      out.println(String.join("\t", "partitions", "", String.join("\t", placed)));
    }
  }

  private Map<String, KuduScanTokenBuilder> kinds(KuduTable table, long start, long end) {
    Schema schema = table.getSchema();
    ColumnSchema id = schema.getColumn("id");
    ColumnSchema text = schema.getColumn("string");
    Map<String, KuduScanTokenBuilder> kinds = new LinkedHashMap<>();
    kinds.put("plain", tokens(table));
    kinds.put("without_metadata", tokens(table).includeTableMetadata(false).includeTabletMetadata(false));
    kinds.put("with_table_alone", tokens(table).includeTabletMetadata(false));
    kinds.put("with_tablet_alone", tokens(table).includeTableMetadata(false));
    kinds.put("columns", tokens(table).setProjectedColumnNames(List.of("string", "id", "double")));
    kinds.put("columns_without_metadata",
        tokens(table).setProjectedColumnNames(List.of("string", "id")).includeTableMetadata(false));
    kinds.put("no_columns", tokens(table).setProjectedColumnNames(List.of()));
    kinds.put("predicates", tokens(table)
        .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.GREATER_EQUAL, 20L))
        .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.LESS, 90L))
        .addPredicate(KuduPredicate.newIsNotNullPredicate(text)));
    kinds.put("in_list", tokens(table)
        .addPredicate(KuduPredicate.newInListPredicate(id, List.of(3L, 55L, 56L, 57L, 1000L)))
        .addPredicate(KuduPredicate.newIsNullPredicate(schema.getColumn("int8"))));
    PartialRow lower = schema.newPartialRow();
    lower.addLong("id", 30);
    lower.addString("s", "key 30");
    PartialRow upper = schema.newPartialRow();
    upper.addLong("id", 70);
    upper.addString("s", "");
    kinds.put("bounds", tokens(table).lowerBound(lower).exclusiveUpperBound(upper));
    kinds.put("snapshot", tokens(table).readMode(ReadMode.READ_AT_SNAPSHOT).snapshotTimestampRaw(start));
    kinds.put("in_order", tokens(table).readMode(ReadMode.READ_AT_SNAPSHOT).snapshotTimestampRaw(end)
        .setFaultTolerant(true).batchSizeBytes(300).cacheBlocks(false));
    kinds.put("own_writes", tokens(table).readMode(ReadMode.READ_YOUR_WRITES)
        .replicaSelection(ReplicaSelection.CLOSEST_REPLICA).keepAlivePeriodMs(2000));
    kinds.put("limit", tokens(table).limit(1000));
    kinds.put("changes", tokens(table).diffScan(start, end));
    kinds.put("changes_of_columns", tokens(table).setProjectedColumnNames(List.of("string", "id"))
        .includeTableMetadata(false).diffScan(start, end));
    kinds.put("split", tokens(table).setSplitSizeBytes(1));
    return kinds;
  }

  private KuduScanTokenBuilder tokens(KuduTable table) {
    return client.newScanTokenBuilder(table);
  }

  /** Opens the tokens of a file and writes them again, each with its rows. */
  void open(Path from, Path to) throws Exception {
    try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(to))) {
      for (String line : Files.readAllLines(from)) {
        String[] parts = line.split("\t");
        out.println(String.join("\t", parts[0], parts[1], String.join("\t", rows(bytes(parts[1])))));
      }
    }
  }

  private List<String> rows(byte[] token) throws Exception {
    KuduScanner scanner = KuduScanToken.deserializeIntoScanner(token, client);
    List<String> rows = new ArrayList<>();
    while (scanner.hasMoreRows()) {
      for (RowResult row : scanner.nextRows()) {
        rows.add(text(row));
      }
    }
    Collections.sort(rows);
    return rows;
  }

  private static String text(RowResult row) {
    List<String> cells = new ArrayList<>();
    List<ColumnSchema> columns = row.getSchema().getColumns();
    for (int column = 0; column < columns.size(); column++) {
      cells.add(row.isNull(column) ? "null" : cell(row, columns.get(column), column));
    }
    return String.join("|", cells);
  }

  private static String cell(RowResult row, ColumnSchema column, int index) {
    switch (column.getType()) {
      case INT8:
        return String.valueOf(row.getByte(index));
      case INT16:
        return String.valueOf(row.getShort(index));
      case INT32:
      case DATE:
        return String.valueOf(row.getInt(index));
      case INT64:
      case UNIXTIME_MICROS:
        return String.valueOf(row.getLong(index));
      case BOOL:
        return String.valueOf(row.getBoolean(index));
      case FLOAT:
        return Integer.toUnsignedString(Float.floatToRawIntBits(row.getFloat(index)));
      case DOUBLE:
        return Long.toUnsignedString(Double.doubleToRawLongBits(row.getDouble(index)));
      case DECIMAL:
        return row.getDecimal(index).unscaledValue().toString();
      case BINARY:
        ByteBuffer buffer = row.getBinary(index);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return hex(bytes);
      case VARCHAR:
        return hex(row.getVarchar(index).getBytes(StandardCharsets.UTF_8));
      default:
        return hex(row.getString(index).getBytes(StandardCharsets.UTF_8));
    }
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte one : bytes) {
      text.append(String.format("%02x", one));
    }
    return text.toString();
  }

  private static byte[] bytes(String hex) {
    byte[] bytes = new byte[hex.length() / 2];
    for (int index = 0; index < bytes.length; index++) {
      bytes[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
    }
    return bytes;
  }
}
