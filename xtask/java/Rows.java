import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.ColumnTypeAttributes.ColumnTypeAttributesBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.AsyncKuduScanner;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduPredicate;
import org.apache.kudu.client.KuduPredicate.ComparisonOp;
import org.apache.kudu.client.KuduScanToken;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.Operation;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RowResult;
import org.apache.kudu.client.SessionConfiguration.FlushMode;

/** Writing and reading rows, compared with a model of the table. */
final class Rows {
  private static final int COUNT = 500;

  private final KuduClient client;

  Rows(KuduClient client) {
    this.client = client;
  }

  /** Every type of 1.18, nullable, behind an INT64 key. */
  private static Schema everyTypeSchema() {
    List<ColumnSchema> columns = new ArrayList<>();
    columns.add(new ColumnSchemaBuilder("key", Type.INT64).key(true).build());
    for (ColumnSchemaBuilder column : types()) {
      columns.add(column.nullable(true).build());
    }
    return new Schema(columns);
  }

  private static List<ColumnSchemaBuilder> types() {
    return List.of(
        new ColumnSchemaBuilder("int8", Type.INT8),
        new ColumnSchemaBuilder("int16", Type.INT16),
        new ColumnSchemaBuilder("int32", Type.INT32),
        new ColumnSchemaBuilder("int64", Type.INT64),
        new ColumnSchemaBuilder("string", Type.STRING),
        new ColumnSchemaBuilder("binary", Type.BINARY),
        new ColumnSchemaBuilder("time", Type.UNIXTIME_MICROS),
        new ColumnSchemaBuilder("date", Type.DATE),
        sized("varchar", Type.VARCHAR, new ColumnTypeAttributesBuilder().length(12)),
        sized("decimal32", Type.DECIMAL, new ColumnTypeAttributesBuilder().precision(9).scale(2)),
        sized("decimal64", Type.DECIMAL, new ColumnTypeAttributesBuilder().precision(18).scale(3)),
        sized("decimal128", Type.DECIMAL, new ColumnTypeAttributesBuilder().precision(38).scale(4)),
        new ColumnSchemaBuilder("bool", Type.BOOL),
        new ColumnSchemaBuilder("float", Type.FLOAT),
        new ColumnSchemaBuilder("double", Type.DOUBLE));
  }

  private static ColumnSchemaBuilder sized(String name, Type type, ColumnTypeAttributesBuilder attributes) {
    return new ColumnSchemaBuilder(name, type).typeAttributes(attributes.build());
  }

  /** A value of a column that grows with n, from below zero where the type has it. */
  private static Object value(ColumnSchema column, long n) {
    switch (column.getName()) {
      case "int8":
        return (byte) (n - 100);
      case "int16":
        return (short) (n * 60 - 30_000);
      case "int32":
        return (int) (n * 4_000_000 - 2_000_000_000);
      case "int64":
      case "key":
        return n * 30_000_000_000_000_000L - 6_000_000_000_000_000_000L;
      case "string":
        return String.format("ü%06d\0%s", n, n % 2 == 0 ? "" : "x");
      case "binary":
        return new byte[] {(byte) (n >> 8), 0, (byte) n, (byte) 0xff};
      case "time":
        return Timestamp.from(Instant.EPOCH.plusSeconds((n - 250) * 86_399).plusNanos(n * 1000));
      case "date":
        return Date.valueOf(LocalDate.of(1, 1, 1).plusDays(n * 5000));
      case "varchar":
        return String.format("%05dé世界", n);
      case "decimal32":
        return BigDecimal.valueOf(n * 1_999_999 - 999_999_999, 2).min(BigDecimal.valueOf(999_999_999, 2));
      case "decimal64":
        return BigDecimal.valueOf(n * 1_000_000_007L - 250_000_000_000L, 3);
      case "decimal128":
        return new BigDecimal("12345678901234567890123.0000").multiply(BigDecimal.valueOf(n - 250)).setScale(4);
      case "bool":
        return n % 2 == 0;
      case "float":
        return (float) n / 3 - 80;
      default:
        return n / 7.0 - 35;
    }
  }

  void everyType() throws Exception {
    Schema schema = everyTypeSchema();
    KuduTable table = client.createTable("java.types", schema, Definitions.byHash("key", 3));
    Map<Object, Map<String, Object>> model = new TreeMap<>();
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.MANUAL_FLUSH);

    for (long n = 0; n < COUNT; n++) {
      apply(session, table.newInsert(), row(schema, n, n), model);
    }
    flush(session);
    compare(table, model, "after inserts");

    for (long n = 0; n < COUNT + 50; n += 2) {
      apply(session, table.newUpsert(), row(schema, n, n + 1), model);
    }
    flush(session);
    compare(table, model, "after upserts");

    for (long n = 0; n < COUNT; n += 3) {
      Map<String, Object> change = new LinkedHashMap<>();
      change.put("key", value(schema.getColumn("key"), n));
      change.put("int32", (int) n);
      change.put("string", null);
      apply(session, table.newUpdate(), change, model);
    }
    flush(session);
    compare(table, model, "after updates");

    for (long n = 0; n < COUNT; n += 5) {
      Operation delete = table.newDelete();
      Object key = value(schema.getColumn("key"), n);
      delete.getRow().addObject("key", key);
      session.apply(delete);
      model.remove(key);
    }
    flush(session);
    compare(table, model, "after deletes");
    session.close();
    client.deleteTable("java.types");
  }

  /** Every seventh row has nulls everywhere but in its key. */
  private static Map<String, Object> row(Schema schema, long key, long n) {
    Map<String, Object> row = new LinkedHashMap<>();
    for (ColumnSchema column : schema.getColumns()) {
      boolean isKey = column.isKey();
      row.put(column.getName(), isKey ? value(column, key) : n % 7 == 6 ? null : value(column, n));
    }
    return row;
  }

  private static void apply(
      KuduSession session, Operation operation, Map<String, Object> values, Map<Object, Map<String, Object>> model)
      throws Exception {
    PartialRow row = operation.getRow();
    Map<String, Object> stored = model.computeIfAbsent(values.get("key"), key -> new LinkedHashMap<>());
    for (Map.Entry<String, Object> cell : values.entrySet()) {
      if (cell.getValue() == null) {
        row.setNull(cell.getKey());
      } else {
        row.addObject(cell.getKey(), cell.getValue());
      }
      stored.put(cell.getKey(), comparable(cell.getValue()));
    }
    session.apply(operation);
  }

  private static void flush(KuduSession session) throws Exception {
    for (OperationResponse response : session.flush()) {
      Checks.holds(!response.hasRowError(), String.valueOf(response.getRowError()));
    }
  }

  private void compare(KuduTable table, Map<Object, Map<String, Object>> model, String when) throws Exception {
    for (AsyncKuduScanner.RowDataFormat format : AsyncKuduScanner.RowDataFormat.values()) {
      KuduScanner scanner = client.newScannerBuilder(table).build();
      scanner.setRowDataFormat(format);
      Map<Object, Map<String, Object>> found = new TreeMap<>();
      while (scanner.hasMoreRows()) {
        for (RowResult row : scanner.nextRows()) {
          Checks.equal(null, found.put(row.getObject("key"), cells(row)), "a row came twice");
        }
      }
      Checks.equal(model.keySet(), found.keySet(), "keys " + when + ", " + format);
      for (Map.Entry<Object, Map<String, Object>> row : model.entrySet()) {
        Checks.equal(row.getValue(), found.get(row.getKey()), "row " + when + ", " + format);
      }
    }
  }

  private static Map<String, Object> cells(RowResult row) {
    Map<String, Object> cells = new LinkedHashMap<>();
    for (ColumnSchema column : row.getSchema().getColumns()) {
      String name = column.getName();
      cells.put(name, row.isNull(name) ? null : comparable(row.getObject(name)));
    }
    return cells;
  }

  /** Arrays do not compare by content. */
  private static Object comparable(Object value) {
    if (value instanceof ByteBuffer) {
      ByteBuffer buffer = ((ByteBuffer) value).duplicate();
      byte[] bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      return Arrays.toString(bytes);
    }
    return value instanceof byte[] ? Arrays.toString((byte[]) value) : value;
  }

  /** For each type that can be a key: rows come in its order, and a lookup by key finds its one row. */
  void keysOfEveryType() throws Exception {
    for (ColumnSchemaBuilder builder : types().subList(0, 12)) {
      ColumnSchema column = builder.key(true).build();
      String name = column.getName();
      Schema schema =
          new Schema(List.of(column, new ColumnSchemaBuilder("n", Type.INT32).key(true).build()));
      KuduTable table =
          client.createTable("java.key_" + name, schema,
              new CreateTableOptions().setNumReplicas(1)
                  .setRangePartitionColumns(List.of(name)));
      KuduSession session = client.newSession();
      session.setFlushMode(FlushMode.MANUAL_FLUSH);
      // In an order that is neither up nor down; 7 and 101 have no common divisor.
      for (int i = 0; i < 101; i++) {
        int n = i * 7 % 101;
        Operation insert = table.newInsert();
        insert.getRow().addObject(name, value(column, n));
        insert.getRow().addInt("n", n);
        session.apply(insert);
      }
      flush(session);
      session.close();
      KuduScanner ordered = client.newScannerBuilder(table).setFaultTolerant(true).build();
      int next = 0;
      while (ordered.hasMoreRows()) {
        for (RowResult row : ordered.nextRows()) {
          Checks.equal(next, row.getInt("n"), "place in the order of " + name);
          next++;
        }
      }
      Checks.equal(101, next, "rows by " + name);
      Object middle = value(column, 50);
      KuduScanner one =
          client.newScannerBuilder(table)
              .addPredicate(KuduPredicate.newComparisonPredicate(column, ComparisonOp.EQUAL, middle)).build();
      Checks.equal(1, count(one), "rows equal to " + middle);
      client.deleteTable("java.key_" + name);
    }
  }

  void scans() throws Exception {
    Schema schema = Definitions.small();
    KuduTable table = client.createTable("java.scans", schema, Definitions.byHash("id", 4));
    KuduSession session = client.newSession();
    session.setFlushMode(FlushMode.MANUAL_FLUSH);
    for (int id = 0; id < 5000; id++) {
      Operation insert = table.newInsert();
      insert.getRow().addInt("id", id);
      if (id % 10 != 0) {
        insert.getRow().addString("text", "t" + id % 100);
      }
      session.apply(insert);
      if (id % 500 == 499) {
        flush(session);
      }
    }
    session.close();
    ColumnSchema id = schema.getColumn("id");
    ColumnSchema text = schema.getColumn("text");

    Checks.equal(5000, count(client.newScannerBuilder(table).build()), "all");
    Checks.equal(1000, count(client.newScannerBuilder(table)
        .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.GREATER_EQUAL, 1000))
        .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.LESS, 2000)).build()), "range");
    Checks.equal(500, count(client.newScannerBuilder(table)
        .addPredicate(KuduPredicate.newIsNullPredicate(text)).build()), "null");
    Checks.equal(4500, count(client.newScannerBuilder(table)
        .addPredicate(KuduPredicate.newIsNotNullPredicate(text)).build()), "not null");
    Checks.equal(100, count(client.newScannerBuilder(table)
        .addPredicate(KuduPredicate.newInListPredicate(text, List.of("t77", "t33", "none", "t33"))).build()), "in list");
    Checks.equal(50, count(client.newScannerBuilder(table)
        .addPredicate(KuduPredicate.newComparisonPredicate(text, ComparisonOp.EQUAL, "t5")).build()), "equal");
    Checks.equal(17, count(client.newScannerBuilder(table).limit(17).build()), "limit");

    KuduScanner projected = client.newScannerBuilder(table).setProjectedColumnNames(List.of("text"))
        .addPredicate(KuduPredicate.newComparisonPredicate(id, ComparisonOp.EQUAL, 42)).build();
    RowResult only = projected.nextRows().next();
    Checks.equal(1, only.getSchema().getColumnCount(), "columns of the projection");
    Checks.equal("t42", only.getString("text"), "cell of the projection");
    projected.close();
    Checks.equal(5000, count(client.newScannerBuilder(table).setProjectedColumnNames(List.of()).build()), "no columns");
    Checks.equal(5000, count(client.newScannerBuilder(table).batchSizeBytes(100).build()), "small batches");

    int byTokens = 0;
    List<KuduScanToken> tokens = client.newScanTokenBuilder(table).build();
    for (KuduScanToken token : tokens) {
      byTokens += count(KuduScanToken.deserializeIntoScanner(token.serialize(), client));
    }
    Checks.equal(4, tokens.size(), "tokens");
    Checks.equal(5000, byTokens, "rows by tokens");
    client.deleteTable("java.scans");
  }

  static int count(KuduScanner scanner) throws Exception {
    int rows = 0;
    while (scanner.hasMoreRows()) {
      rows += scanner.nextRows().getNumRows();
    }
    scanner.close();
    return rows;
  }
}
