import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.ColumnTypeAttributes.ColumnTypeAttributesBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.AlterTableOptions;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RangePartitionBound;
import org.apache.kudu.client.RangePartitionWithCustomHashSchema;

/** Everything that changes a table, told line by line. */
final class Ddl {
  private static final String NAME = "told.ddl";
  private static final RangePartitionBound IN = RangePartitionBound.INCLUSIVE_BOUND;
  private static final RangePartitionBound OUT = RangePartitionBound.EXCLUSIVE_BOUND;

  private final KuduClient client;
  private final KuduClient other;
  private final Transcript told;

  Ddl(KuduClient client, KuduClient other) {
    this.client = client;
    this.other = other;
    this.told = new Transcript(client);
  }

  void run() throws Exception {
    columns();
    kinds();
    ranges();
    steps();
    olderHandles();
    olderLocations();
    together();
    underLoad();
  }

  private static Schema schema() {
    return new Schema(
        List.of(
            new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
            new ColumnSchemaBuilder("day", Type.INT32).key(true).comment("when").build(),
            new ColumnSchemaBuilder("text", Type.STRING).nullable(true).build()));
  }

  private KuduTable make() throws Exception {
    CreateTableOptions options =
        new CreateTableOptions().setNumReplicas(1).setOwner("somebody").setRangePartitionColumns(List.of("day"))
            .addHashPartitions(List.of("id"), 2, 5)
            .addRangePartition(day(0), day(100));
    return client.createTable(NAME, schema(), options);
  }

  private static PartialRow day(Integer day) {
    PartialRow row = schema().newPartialRow();
    if (day != null) {
      row.addInt("day", day);
    }
    return row;
  }

  private void insert(String what, KuduTable table, int id, int day, Object... more) {
    told.write(what, Transcript.with(Transcript.with(table.newInsert(), "id", id, "day", day), more));
  }

  private void columns() throws Exception {
    told.title("columns come, go and change");
    KuduTable table = make();
    told.describe(NAME);
    insert("a row", table, 1, 1, "text", "one");
    told.alter("add", NAME,
        new AlterTableOptions().addColumn("n", Type.INT64, 7L).addNullableColumn("note", Type.STRING)
            .addNullableColumn("said", Type.STRING, "nothing"));
    table = client.openTable(NAME);
    told.rows("old rows", table, "id", "n", "note", "said");
    told.alter("change", NAME,
        new AlterTableOptions().changeDefault("n", 8L).changeComment("n", "a number").changeEncoding("n", ColumnSchema.Encoding.RLE)
            .changeCompressionAlgorithm("text", ColumnSchema.CompressionAlgorithm.ZLIB)
            .changeDesiredBlockSize("text", 65536).changeImmutable("note", true).renameColumn("text", "words"));
    told.describe(NAME);
    table = client.openTable(NAME);
    insert("another row", table, 2, 2, "words", "two", "note", "kept");
    told.write("update of an immutable column",
        Transcript.with(table.newUpdate(), "id", 2, "day", 2, "note", "changed"));
    told.rows("rows", table, "id", "words", "n", "note", "said");
    told.alter("remove a default", NAME, new AlterTableOptions().removeDefault("n"));
    insert("a row without a value", client.openTable(NAME), 3, 3);
    told.alter("drop", NAME, new AlterTableOptions().dropColumn("n").dropColumn("note"));
    told.alter("rename a key column", NAME, new AlterTableOptions().renameColumn("id", "number"));
    told.describe(NAME);
    told.rows("rows", client.openTable(NAME), "number", "day", "words", "said");

    told.alter("drop a key column", NAME, new AlterTableOptions().dropColumn("day"));
    told.alter("drop what is not there", NAME, new AlterTableOptions().dropColumn("n"));
    told.alter("add what is there", NAME, new AlterTableOptions().addNullableColumn("words", Type.INT8));
    told.alter("rename to what is there", NAME, new AlterTableOptions().renameColumn("words", "said"));
    told.alter("rename what is not there", NAME, new AlterTableOptions().renameColumn("n", "m"));
    told.alter("change what is not there", NAME, new AlterTableOptions().changeComment("n", "x"));
    told.alter("an encoding that does not fit", NAME,
        new AlterTableOptions().changeEncoding("words", ColumnSchema.Encoding.RLE));
    told.alter("a long name", NAME, new AlterTableOptions().renameColumn("words", "x".repeat(257)));
    told.alter("a long comment", NAME, new AlterTableOptions().changeComment("words", "x".repeat(257)));
    told.attempt("not null without a default", () -> {
      client.alterTable(NAME, new AlterTableOptions().addColumn(new ColumnSchemaBuilder("must", Type.INT8).build()));
      return null;
    });
    told.alter("nothing at all", NAME, new AlterTableOptions());
    told.alter("no such table", "told.nowhere", new AlterTableOptions().dropColumn("n"));
    told.describe(NAME);
    client.deleteTable(NAME);
  }

  /** A column of every type is added with a default. */
  private void kinds() throws Exception {
    told.title("columns of every type");
    KuduTable table = make();
    insert("a row of before", table, 1, 1);
    AlterTableOptions options = new AlterTableOptions();
    Object[][] kinds = {
      {Type.INT8, (byte) -8}, {Type.INT16, (short) 16}, {Type.INT32, 32}, {Type.INT64, 1L << 62}, {Type.BOOL, true},
      {Type.FLOAT, -0.5f}, {Type.DOUBLE, 1e300}, {Type.STRING, "d\u00e9faut"}, {Type.BINARY, new byte[] {0, -1}},
      {Type.UNIXTIME_MICROS, 1L}, {Type.DATE, java.sql.Date.valueOf("2024-02-29")}};
    for (Object[] kind : kinds) {
      Type type = (Type) kind[0];
      options.addColumn(
          new ColumnSchemaBuilder("c_" + type.getName(), type).defaultValue(kind[1]).build());
    }
    options.addColumn(
        new ColumnSchemaBuilder("c_decimal", Type.DECIMAL)
            .typeAttributes(new ColumnTypeAttributesBuilder().precision(20).scale(3).build())
            .defaultValue(new java.math.BigDecimal("12345678901234567.125")).build());
    options.addColumn(
        new ColumnSchemaBuilder("c_varchar", Type.VARCHAR)
            .typeAttributes(new ColumnTypeAttributesBuilder().length(3).build()).defaultValue("abc").build());
    told.alter("add them", NAME, options);
    table = client.openTable(NAME);
    insert("a row of after", table, 2, 2);
    List<String> names = new ArrayList<>();
    table.getSchema().getColumns().forEach(column -> names.add(column.getName()));
    told.rows("rows", table, names.toArray(new String[0]));
    client.deleteTable(NAME);
  }

  private void ranges() throws Exception {
    told.title("ranges come and go");
    KuduTable table = make();
    RangePartitionWithCustomHashSchema own =
        new RangePartitionWithCustomHashSchema(day(300), day(400), IN, OUT);
    own.addHashPartitions(List.of("id"), 3, 9);
    RangePartitionWithCustomHashSchema plain =
        new RangePartitionWithCustomHashSchema(day(400), day(500), IN, OUT);
    told.alter("exclusive and inclusive", NAME,
        new AlterTableOptions().addRangePartition(day(99), day(199), OUT, IN));
    told.alter("with a label", NAME, new AlterTableOptions().addRangePartition(day(200), day(300), "label", IN, OUT));
    told.alter("with its own hash", NAME, new AlterTableOptions().addRangePartition(own));
    told.alter("without hash", NAME, new AlterTableOptions().addRangePartition(plain));
    told.alter("without an end", NAME, new AlterTableOptions().addRangePartition(day(500), day(null)));
    told.describe(NAME);
    table = client.openTable(NAME);
    for (int day : new int[] {0, 100, 199, 250, 399, 450, 1_000_000}) {
      insert("a row of day " + day, table, day, day);
    }
    insert("a row of no range", table, 1, -1);
    told.rows("rows", table, "id");
    told.alter("that overlaps", NAME, new AlterTableOptions().addRangePartition(day(50), day(60)));
    told.alter("that is there", NAME, new AlterTableOptions().addRangePartition(day(0), day(100)));
    told.alter("that is empty", NAME, new AlterTableOptions().addRangePartition(day(-5), day(-5)));
    told.alter("upside down", NAME, new AlterTableOptions().addRangePartition(day(-5), day(-6)));
    told.alter("drop a part", NAME, new AlterTableOptions().dropRangePartition(day(0), day(50)));
    told.alter("drop by other kinds of bounds", NAME,
        new AlterTableOptions().dropRangePartition(day(99), day(199), OUT, IN));
    told.alter("drop it again", NAME, new AlterTableOptions().dropRangePartition(day(100), day(200)));
    told.alter("drop one with its own hash", NAME, new AlterTableOptions().dropRangePartition(day(300), day(400)));
    told.alter("drop and add the same", NAME,
        new AlterTableOptions().dropRangePartition(day(0), day(100)).addRangePartition(day(0), day(100)));
    told.describe(NAME);
    told.rows("rows that are left", client.openTable(NAME), "id");
    client.deleteTable(NAME);
  }

  private void steps() throws Exception {
    told.title("several steps, all or nothing");
    make();
    told.alter("all", NAME,
        new AlterTableOptions().addNullableColumn("a", Type.INT8).renameColumn("a", "b").changeComment("b", "was a")
            .addRangePartition(day(100), day(200)).dropRangePartition(day(0), day(100)).setOwner("another")
            .setComment("changed").alterExtraConfigs(Map.of("kudu.table.history_max_age_sec", "60"))
            .renameTable(NAME + ".new"));
    told.attempt("the old name", () -> client.openTable(NAME));
    told.describe(NAME + ".new");
    told.alter("nothing, for its last step", NAME + ".new",
        new AlterTableOptions().addNullableColumn("c", Type.INT8).setOwner("nobody").renameTable(NAME)
            .dropColumn("nope"));
    told.alter("nothing, for its range", NAME + ".new",
        new AlterTableOptions().addNullableColumn("c", Type.INT8).addRangePartition(day(150), day(160)));
    told.alter("nothing, for a property", NAME + ".new",
        new AlterTableOptions().addNullableColumn("c", Type.INT8).alterExtraConfigs(Map.of("no.such", "1")));
    told.alter("an owner without a name", NAME + ".new", new AlterTableOptions().setOwner(""));
    told.alter("a property away", NAME + ".new",
        new AlterTableOptions().alterExtraConfigs(Map.of("kudu.table.history_max_age_sec", "")));
    told.describe(NAME + ".new");
    make();
    told.alter("a name that is taken", NAME + ".new", new AlterTableOptions().renameTable(NAME));
    client.deleteTable(NAME + ".new");
    client.deleteTable(NAME);
  }

  private void olderHandles() throws Exception {
    told.title("handles of before");
    KuduTable old = make();
    insert("a row", old, 1, 1, "text", "one");
    told.alter("rename and add", NAME,
        new AlterTableOptions().renameColumn("text", "words").addColumn("n", Type.INT32, 5));
    told.rows("by a name that is gone", old, "id", "text");
    told.rows("by names that are there", old, "id", "day");
    insert("a row by a name that is gone", old, 2, 2, "text", "two");
    insert("a row of key columns only", old, 3, 3);
    told.alter("drop and add again", NAME,
        new AlterTableOptions().dropColumn("words").addNullableColumn("words", Type.STRING));
    told.rows("a column that came anew", client.openTable(NAME), "id", "words", "n");
    told.alter("as another type", NAME,
        new AlterTableOptions().dropColumn("words").addNullableColumn("words", Type.INT64));
    told.rows("a column of another type", client.openTable(NAME), "id", "words");
    client.deleteTable(NAME);
  }

  /** Somebody else drops a range and adds it again. */
  private void olderLocations() throws Exception {
    told.title("locations of before");
    KuduTable old = make();
    insert("a row", old, 1, 1);
    other.alterTable(NAME, new AlterTableOptions().dropRangePartition(day(0), day(100)));
    insert("a row into the gap", old, 2, 2);
    told.rows("rows around the gap", old, "id");
    other.alterTable(NAME, new AlterTableOptions().addRangePartition(day(0), day(100)));
    insert("a row of the new range, by who knows the gap", old, 3, 3);
    new Transcript(other).write("by who does not",
        Transcript.with(other.openTable(NAME).newInsert(), "id", 4, "day", 4));
    new Transcript(other).rows("rows", other.openTable(NAME), "id");
    client.deleteTable(NAME);
  }

  /** Four at a time, each with columns of its own. */
  private void together() throws Exception {
    told.title("at the same time");
    make();
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Future<?>> all = new ArrayList<>();
    for (int thread = 0; thread < 4; thread++) {
      int own = thread;
      all.add(pool.submit(() -> {
        for (int i = 0; i < 3; i++) {
          client.alterTable(NAME, new AlterTableOptions().addNullableColumn("c" + own + "_" + i, Type.INT8));
        }
        return null;
      }));
    }
    for (Future<?> one : all) {
      one.get();
    }
    pool.shutdown();
    List<String> names = new ArrayList<>();
    client.openTable(NAME).getSchema().getColumns().forEach(column -> names.add(column.getName()));
    Collections.sort(names);
    told.say("columns", names);
    client.deleteTable(NAME);
  }

  /** Somebody writes while the table changes; no row is refused or lost. */
  private void underLoad() throws Exception {
    told.title("under load");
    KuduTable table = make();
    AtomicBoolean done = new AtomicBoolean();
    ExecutorService pool = Executors.newSingleThreadExecutor();
    Future<Integer> writer = pool.submit(() -> {
      KuduSession session = client.newSession();
      int rows = 0;
      while (!done.get()) {
        OperationResponse response =
            session.apply(Transcript.with(table.newInsert(), "id", rows, "day", rows % 100));
        if (response.hasRowError()) {
          throw new IllegalStateException(response.getRowError().toString());
        }
        rows++;
      }
      session.close();
      return rows;
    });
    for (int i = 0; i < 5; i++) {
      told.alter("add " + i, NAME, new AlterTableOptions().addColumn("n" + i, Type.INT32, i));
      told.alter("rename " + i, NAME, new AlterTableOptions().renameColumn("n" + i, "m" + i));
    }
    done.set(true);
    int written = writer.get();
    pool.shutdown();
    told.say("all rows are there", Rows.count(client.newScannerBuilder(client.openTable(NAME)).build()) == written);
    client.deleteTable(NAME);
  }
}
