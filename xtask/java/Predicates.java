import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.ColumnTypeAttributes.ColumnTypeAttributesBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduPredicate;
import org.apache.kudu.client.KuduPredicate.ComparisonOp;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RowResult;

/** Conditions on every type with the values where types end, told line by line: rows in memory, then rows in files. */
final class Predicates {
  private static final String NAME = "told.predicates";

  private final KuduClient client;
  private final Transcript told;
  private final Map<ColumnSchema, List<Object>> columns = new LinkedHashMap<>();

  Predicates(KuduClient client) {
    this.client = client;
    this.told = new Transcript(client);
    column("int8", Type.INT8, Byte.MIN_VALUE, (byte) -1, (byte) 0, (byte) 1, Byte.MAX_VALUE);
    column("int16", Type.INT16, Short.MIN_VALUE, (short) -1, (short) 0, (short) 1, Short.MAX_VALUE);
    column("int32", Type.INT32, Integer.MIN_VALUE, -1, 0, 1, Integer.MAX_VALUE);
    column("int64", Type.INT64, Long.MIN_VALUE, -1L, 0L, 1L, Long.MAX_VALUE);
    column("bool", Type.BOOL, false, true);
    column("float", Type.FLOAT, Float.NEGATIVE_INFINITY, -Float.MAX_VALUE, -1f, -0f, 0f, Float.MIN_VALUE, Float.MAX_VALUE,
        Float.POSITIVE_INFINITY, Float.NaN);
    column("double", Type.DOUBLE, Double.NEGATIVE_INFINITY, -Double.MAX_VALUE, -1d, -0d, 0d, Double.MIN_VALUE,
        Double.MAX_VALUE, Double.POSITIVE_INFINITY, Double.NaN);
    column("string", Type.STRING, "", "\0", "a", "a\0", "a\0b", "\u00e9", "\ud83e\udd8c");
    column("binary", Type.BINARY, new byte[0], new byte[] {0}, new byte[] {0, 0}, new byte[] {1}, new byte[] {-1},
        new byte[] {-1, -1});
    column("time", Type.UNIXTIME_MICROS, new Timestamp(-62135596800000L), new Timestamp(-1), new Timestamp(0),
        new Timestamp(1), new Timestamp(253402300799000L));
    column("date", Type.DATE, Date.valueOf("0001-01-01"), Date.valueOf("1969-12-31"), Date.valueOf("1970-01-01"),
        Date.valueOf("9999-12-31"));
    sized("varchar", Type.VARCHAR, new ColumnTypeAttributesBuilder().length(3), "", "a", "ab", "abc", "\u00e9\u00e9\u00e9");
    for (int precision : new int[] {4, 9, 18, 38}) {
      BigDecimal most = new BigDecimal("9".repeat(precision)).movePointLeft(2);
      sized("decimal" + precision, Type.DECIMAL, new ColumnTypeAttributesBuilder().precision(precision).scale(2),
          most.negate(), new BigDecimal("-0.01"), new BigDecimal("0.00"), new BigDecimal("0.01"), most);
    }
  }

  private void column(String name, Type type, Object... values) {
    columns.put(new ColumnSchemaBuilder(name, type).nullable(true).build(), Arrays.asList(values));
  }

  private void sized(String name, Type type, ColumnTypeAttributesBuilder attributes, Object... values) {
    columns.put(
        new ColumnSchemaBuilder(name, type).nullable(true).typeAttributes(attributes.build()).build(), Arrays.asList(values));
  }

  void run() throws Exception {
    List<ColumnSchema> all = new ArrayList<>();
    all.add(new ColumnSchemaBuilder("id", Type.INT32).key(true).build());
    all.addAll(columns.keySet());
    KuduTable table = client.createTable(NAME, new Schema(all), Definitions.byHash("id", 2));
    int rows = columns.values().stream().mapToInt(List::size).max().getAsInt() + 1;
    for (int id = 0; id < rows; id++) {
      List<Object> cells = new ArrayList<>(List.of("id", id));
      for (Map.Entry<ColumnSchema, List<Object>> column : columns.entrySet()) {
        // Behind the last value there are NULLs.
        cells.add(column.getKey().getName());
        cells.add(id < column.getValue().size() ? column.getValue().get(id) : null);
      }
      told.write("row " + id, Transcript.with(table.newInsert(), cells.toArray()));
    }
    told.title("conditions");
    conditions(table);
    told.title("conditions on rows in files");
    Scans.waitForFiles(client, table);
    conditions(table);
    client.deleteTable(NAME);
  }

  private void conditions(KuduTable table) {
    for (Map.Entry<ColumnSchema, List<Object>> one : columns.entrySet()) {
      ColumnSchema column = one.getKey();
      List<Object> values = one.getValue();
      for (Object value : values) {
        for (ComparisonOp op : ComparisonOp.values()) {
          ids(column.getName() + " " + op + " " + text(value), table, comparison(column, op, value));
        }
      }
      ids(column.getName() + " is null", table, () -> KuduPredicate.newIsNullPredicate(column));
      ids(column.getName() + " is not null", table, () -> KuduPredicate.newIsNotNullPredicate(column));
      ids(column.getName() + " in none", table, () -> KuduPredicate.newInListPredicate(column, List.of()));
      ids(column.getName() + " in all", table, () -> KuduPredicate.newInListPredicate(column, values));
      List<Object> some = new ArrayList<>(values.subList(values.size() / 2, values.size()));
      Collections.reverse(some);
      ids(column.getName() + " in the greater half, twice", table,
          () -> KuduPredicate.newInListPredicate(column, some),
          () -> KuduPredicate.newInListPredicate(column, Collections.nCopies(2, some.get(0))));
      Object low = values.get(1);
      Object high = values.get(values.size() - 1);
      ids(column.getName() + " from the second to before the last", table,
          comparison(column, ComparisonOp.GREATER_EQUAL, low), comparison(column, ComparisonOp.LESS, high));
      ids(column.getName() + " two values at once", table,
          comparison(column, ComparisonOp.EQUAL, low), comparison(column, ComparisonOp.EQUAL, values.get(0)));
    }
  }

  private interface Condition {
    KuduPredicate make();
  }

  private static Condition comparison(ColumnSchema column, ComparisonOp op, Object value) {
    return () -> KuduPredicate.newComparisonPredicate(column, op, value);
  }

  /** Which rows pass. Where the client itself refuses the condition, that. */
  private void ids(String what, KuduTable table, Condition... conditions) {
    told.attempt(what, () -> {
      KuduScanner.KuduScannerBuilder scan = client.newScannerBuilder(table).setProjectedColumnNames(List.of("id"));
      for (Condition condition : conditions) {
        scan.addPredicate(condition.make());
      }
      List<Integer> ids = new ArrayList<>();
      for (RowResult row : scan.build()) {
        ids.add(row.getInt("id"));
      }
      Collections.sort(ids);
      return ids;
    });
  }

  private static String text(Object value) {
    String text = value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
    return text.replace("\0", "\\0");
  }
}
