import java.util.ArrayList;
import java.util.List;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.AlterTableOptions;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.Insert;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduException;
import org.apache.kudu.client.KuduScanner;
import org.apache.kudu.client.KuduSession;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.OperationResponse;
import org.apache.kudu.client.PartialRow;
import org.apache.kudu.client.RangePartitionBound;
import org.apache.kudu.client.RangePartitionWithCustomHashSchema;
import org.apache.kudu.client.RowResult;
import org.apache.kudu.client.RowResultIterator;
import org.apache.kudu.client.Update;
import org.apache.kudu.client.UpdateIgnore;
import org.apache.kudu.client.UpsertIgnore;

/** Tables that change, and tables that are deleted for a while. */
final class Alterations {
  private static final String NAME = "java.altered";
  private final KuduClient client;

  Alterations(KuduClient client) {
    this.client = client;
  }

  private static Schema schema() {
    return new Schema(
        List.of(
            new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
            new ColumnSchemaBuilder("text", Type.STRING).nullable(true).build(),
            new ColumnSchemaBuilder("fixed", Type.INT32).nullable(true).immutable(true).build()));
  }

  private KuduTable table() throws KuduException {
    CreateTableOptions options =
        new CreateTableOptions().setNumReplicas(1).setRangePartitionColumns(List.of("id"))
            .addHashPartitions(List.of("id"), 2)
            .addRangePartition(id(schema(), 0), id(schema(), 100));
    return client.createTable(NAME, schema(), options);
  }

  private static PartialRow id(Schema schema, int id) {
    PartialRow row = schema.newPartialRow();
    row.addInt("id", id);
    return row;
  }

  private OperationResponse insert(KuduTable table, int id) throws KuduException {
    Insert insert = table.newInsert();
    insert.getRow().addInt("id", id);
    KuduSession session = client.newSession();
    OperationResponse response = session.apply(insert);
    session.close();
    return response;
  }

  private List<String> rows(KuduTable table, String... columns) throws KuduException {
    List<String> rows = new ArrayList<>();
    KuduScanner scanner =
        client.newScannerBuilder(table).setProjectedColumnNames(List.of(columns)).build();
    while (scanner.hasMoreRows()) {
      RowResultIterator batch = scanner.nextRows();
      for (RowResult row : batch) {
        rows.add(row.rowToString());
      }
    }
    rows.sort(null);
    return rows;
  }

  private void alter(AlterTableOptions options) throws KuduException {
    client.alterTable(NAME, options);
    Checks.holds(client.isAlterTableDone(NAME), "altering is done when it returns");
  }

  private void refused(AlterTableOptions options, String text) {
    try {
      client.alterTable(NAME, options);
      throw new AssertionError("taken, expected " + text);
    } catch (KuduException e) {
      Checks.holds(e.getMessage().contains(text), e.getMessage());
    }
  }

  void columns() throws Exception {
    KuduTable old = table();
    Checks.holds(!insert(old, 1).hasRowError(), "a first row");
    alter(
        new AlterTableOptions()
            .addColumn("answer", Type.INT32, 42)
            .addNullableColumn("word", Type.STRING)
            .renameColumn("text", "note"));
    KuduTable table = client.openTable(NAME);
    Checks.equal(
        List.of("INT32 id=1, STRING note=NULL, INT32 answer=42, STRING word=NULL"),
        rows(table, "id", "note", "answer", "word"), "an old row");
    alter(new AlterTableOptions().changeDefault("answer", 7).changeComment("answer", "a number"));
    table = client.openTable(NAME);
    Checks.holds(!insert(table, 2).hasRowError(), "a second row");
    Checks.equal(
        List.of("INT32 id=1, INT32 answer=42", "INT32 id=2, INT32 answer=7"),
        rows(table, "id", "answer"), "rows of before and after");
    Checks.equal("a number", table.getSchema().getColumn("answer").getComment(), "comment");
    alter(
        new AlterTableOptions()
            .removeDefault("answer")
            .changeDesiredBlockSize("note", 4096)
            .changeEncoding("note", ColumnSchema.Encoding.PLAIN_ENCODING)
            .changeCompressionAlgorithm("note", ColumnSchema.CompressionAlgorithm.LZ4)
            .dropColumn("word"));
    table = client.openTable(NAME);
    ColumnSchema note = table.getSchema().getColumn("note");
    Checks.equal(4096, note.getDesiredBlockSize(), "block size");
    Checks.equal(ColumnSchema.Encoding.PLAIN_ENCODING, note.getEncoding(), "encoding");
    Checks.equal(ColumnSchema.CompressionAlgorithm.LZ4, note.getCompressionAlgorithm(), "compression");
    Checks.equal(4, table.getSchema().getColumnCount(), "columns");
    OperationResponse response = insert(table, 3);
    Checks.holds(response.hasRowError(), "a row without the answer, which has no default any more");
    alter(new AlterTableOptions().dropColumn("note").addNullableColumn("note", Type.INT64));
    table = client.openTable(NAME);
    Checks.equal("INT64 note=NULL", rows(table, "note").get(0), "no cells of the column before");
    refused(new AlterTableOptions().dropColumn("id"), "cannot remove a key column: id");
    refused(new AlterTableOptions().dropColumn("nope"), "The specified column does not exist: nope");
    refused(new AlterTableOptions().addNullableColumn("note", Type.INT8), "already exists: note");
    refused(
        new AlterTableOptions().addNullableColumn("never", Type.INT8).dropColumn("nope"),
        "The specified column does not exist: nope");
    Checks.holds(!client.openTable(NAME).getSchema().hasColumn("never"), "a part of it happened");
    client.deleteTable(NAME);
  }

  void immutableColumns() throws Exception {
    KuduTable table = table();
    KuduSession session = client.newSession();
    Insert insert = table.newInsert();
    insert.getRow().addInt("id", 1);
    insert.getRow().addInt("fixed", 5);
    Checks.holds(!session.apply(insert).hasRowError(), "a row");
    Update update = table.newUpdate();
    update.getRow().addInt("id", 1);
    update.getRow().addInt("fixed", 6);
    OperationResponse response = session.apply(update);
    Checks.holds(response.hasRowError() && response.getRowError().getErrorStatus().isImmutable(), "an update");
    UpdateIgnore ignoring = table.newUpdateIgnore();
    ignoring.getRow().addInt("id", 1);
    ignoring.getRow().addInt("fixed", 6);
    ignoring.getRow().addString("text", "one");
    Checks.holds(!session.apply(ignoring).hasRowError(), "an ignoring update");
    UpsertIgnore upsert = table.newUpsertIgnore();
    upsert.getRow().addInt("id", 1);
    upsert.getRow().addInt("fixed", 7);
    upsert.getRow().addString("text", "two");
    Checks.holds(!session.apply(upsert).hasRowError(), "an ignoring upsert");
    Checks.equal(List.of("STRING text=two, INT32 fixed=5"), rows(table, "text", "fixed"), "the row");
    alter(new AlterTableOptions().changeImmutable("fixed", false));
    table = client.openTable(NAME);
    update = table.newUpdate();
    update.getRow().addInt("id", 1);
    update.getRow().addInt("fixed", 6);
    Checks.holds(!session.apply(update).hasRowError(), "an update of a column that is free again");
    Checks.equal(List.of("INT32 fixed=6"), rows(table, "fixed"), "the row");
    session.close();
    client.deleteTable(NAME);
  }

  void ranges() throws Exception {
    KuduTable table = table();
    Schema schema = table.getSchema();
    RangePartitionWithCustomHashSchema own =
        new RangePartitionWithCustomHashSchema(
            id(schema, 100), id(schema, 200), RangePartitionBound.INCLUSIVE_BOUND,
            RangePartitionBound.EXCLUSIVE_BOUND);
    own.addHashPartitions(List.of("id"), 5, 3);
    alter(
        new AlterTableOptions()
            .addRangePartition(own)
            .addRangePartition(id(schema, 199), id(schema, 299),
                RangePartitionBound.EXCLUSIVE_BOUND, RangePartitionBound.INCLUSIVE_BOUND));
    table = client.openTable(NAME);
    Checks.equal(
        List.of(
            "0 <= VALUES < 100 HASH(id) PARTITIONS 2",
            "100 <= VALUES < 200 HASH(id) PARTITIONS 5",
            "200 <= VALUES < 300 HASH(id) PARTITIONS 2"),
        table.getFormattedRangePartitionsWithHashSchema(10_000), "ranges");
    for (int id : new int[] {5, 150, 299}) {
      Checks.holds(!insert(table, id).hasRowError(), "row " + id);
    }
    Checks.holds(insert(table, 300).hasRowError(), "a row of no range");
    refused(
        new AlterTableOptions().addRangePartition(id(schema, 50), id(schema, 60)),
        "new range partition conflicts with existing one: 50 <= VALUES < 60");
    refused(
        new AlterTableOptions().dropRangePartition(id(schema, 0), id(schema, 50)),
        "no range partition to drop: 0 <= VALUES < 50");
    alter(new AlterTableOptions().dropRangePartition(id(schema, 100), id(schema, 200)));
    table = client.openTable(NAME);
    Checks.equal(List.of("INT32 id=299", "INT32 id=5"), rows(table, "id"), "rows that are left");
    client.deleteTable(NAME);
  }

  void names() throws Exception {
    KuduTable table = table();
    String other = NAME + ".other";
    alter(
        new AlterTableOptions()
            .setOwner("somebody else")
            .setComment("another comment")
            .alterExtraConfigs(java.util.Map.of("kudu.table.history_max_age_sec", "77")));
    client.alterTable(NAME, new AlterTableOptions().renameTable(other));
    Checks.holds(!client.tableExists(NAME), "the old name");
    KuduTable renamed = client.openTable(other);
    Checks.equal(table.getTableId(), renamed.getTableId(), "id");
    Checks.equal("somebody else", renamed.getOwner(), "owner");
    Checks.equal("another comment", renamed.getComment(), "comment");
    Checks.equal("77", renamed.getExtraConfig().get("kudu.table.history_max_age_sec"), "property");
    Checks.holds(!insert(table, 1).hasRowError(), "a handle of before the renaming");
    client.alterTable(other, new AlterTableOptions().renameTable(NAME));
    client.deleteTable(NAME);
  }

  void countedRows() throws Exception {
    Schema schema =
        new Schema(
            List.of(
                new ColumnSchemaBuilder("k", Type.INT32).nonUniqueKey(true).build(),
                new ColumnSchemaBuilder("v", Type.STRING).nullable(true).build()));
    KuduTable table =
        client.createTable("java.counted", schema,
            new CreateTableOptions().setNumReplicas(1).addHashPartitions(List.of("k"), 2));
    Checks.equal(List.of("k", "auto_incrementing_id", "v"),
        table.getSchema().getColumns().stream().map(ColumnSchema::getName).collect(java.util.stream.Collectors.toList()), "columns");
    KuduSession session = client.newSession();
    for (int i = 0; i < 6; i++) {
      Insert insert = table.newInsert();
      insert.getRow().addInt("k", i % 2);
      insert.getRow().addString("v", "v" + i / 2);
      Checks.holds(!session.apply(insert).hasRowError(), "row " + i);
    }
    List<String> expected = new ArrayList<>();
    for (int k = 0; k < 2; k++) {
      for (int n = 1; n <= 3; n++) {
        expected.add("INT32 k=" + k + ", INT64 auto_incrementing_id=" + n + ", STRING v=v" + (n - 1));
      }
    }
    Checks.equal(expected, rows(table, "k", "auto_incrementing_id", "v"), "rows");
    session.close();
    client.deleteTable("java.counted");
  }

  void recall() throws Exception {
    KuduTable table = table();
    Checks.holds(!insert(table, 1).hasRowError(), "a row");
    client.deleteTable(NAME, 600);
    Checks.holds(!client.getTablesList(NAME).getTablesList().contains(NAME), "it is listed");
    Checks.holds(client.getSoftDeletedTablesList(NAME).getTablesList().contains(NAME), "it can be recalled");
    refused(new AlterTableOptions().setComment("x"), "should not be altered");
    client.recallDeletedTable(table.getTableId());
    Checks.holds(client.getTablesList(NAME).getTablesList().contains(NAME), "it is back");
    Checks.equal(1, rows(client.openTable(NAME), "id").size(), "rows");
    client.deleteTable(NAME, 600);
    client.recallDeletedTable(table.getTableId(), NAME + ".back");
    Checks.equal(1, rows(client.openTable(NAME + ".back"), "id").size(), "rows under another name");
    client.deleteTable(NAME + ".back");
    try {
      client.recallDeletedTable(table.getTableId());
      throw new AssertionError("it is back from nowhere");
    } catch (KuduException e) {
      Checks.holds(e.getStatus().isNotFound(), e.toString());
    }
  }
}
