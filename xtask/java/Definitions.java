import java.util.List;
import org.apache.kudu.ColumnSchema;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
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

/** Creating, opening and dropping tables. */
final class Definitions {
  private final KuduClient client;
  private final KuduClient second;

  Definitions(KuduClient client, KuduClient second) {
    this.client = client;
    this.second = second;
  }

  /** A schema of an INT32 key and a text that may be null. */
  static Schema small() {
    return new Schema(
        List.of(
            new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
            new ColumnSchemaBuilder("text", Type.STRING).nullable(true).build()));
  }

  static CreateTableOptions byHash(String column, int buckets) {
    return new CreateTableOptions().addHashPartitions(List.of(column), buckets).setNumReplicas(1);
  }

  void firstTable() throws Exception {
    KuduTable table = client.createTable("java.first", small(), byHash("id", 2));
    Checks.equal("java.first", table.getName(), "name");
    client.deleteTable("java.first");
    Checks.holds(!client.tableExists("java.first"), "a deleted table still exists");
  }

  void tooManyReplicas() throws Exception {
    int alive = client.listTabletServers().getTabletServersCount();
    int replicas = alive < 3 ? 3 : alive / 2 * 2 + 3;
    Checks.holds(replicas <= 7, "too many tablet servers for this check");
    CreateTableOptions options = byHash("id", 2).setNumReplicas(replicas);
    long start = System.nanoTime();
    try {
      client.createTable("java.greedy", small(), options);
      throw new AssertionError("it was created");
    } catch (KuduException e) {
      Checks.holds(e.getStatus().isInvalidArgument(), e.toString());
      Checks.holds(e.getMessage().contains("replication factor " + replicas), e.getMessage());
      Checks.holds(e.getMessage().contains(alive + " tablet servers are alive"), e.getMessage());
    }
    Checks.holds(System.nanoTime() - start < 5_000_000_000L, "the refusal took more than 5 s");
    Checks.holds(!client.tableExists("java.greedy"), "a refused table exists");
  }

  void comeBackAsGiven() throws Exception {
    Schema schema =
        new Schema(
            List.of(
                new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
                new ColumnSchemaBuilder("name", Type.STRING).key(true).build(),
                new ColumnSchemaBuilder("count", Type.INT64).defaultValue(42L).comment("how many").build(),
                new ColumnSchemaBuilder("ratio", Type.DOUBLE).nullable(true)
                    .encoding(ColumnSchema.Encoding.BIT_SHUFFLE)
                    .compressionAlgorithm(ColumnSchema.CompressionAlgorithm.LZ4).build()));
    CreateTableOptions options =
        new CreateTableOptions().setNumReplicas(1).setOwner("somebody").setComment("a comment")
            .addHashPartitions(List.of("name"), 3, 7)
            .setRangePartitionColumns(List.of("id"));
    for (int lower = 0; lower < 300; lower += 100) {
      options.addRangePartition(id(schema, lower), id(schema, lower + 100),
          RangePartitionBound.INCLUSIVE_BOUND, RangePartitionBound.EXCLUSIVE_BOUND);
    }
    client.createTable("java.definition", schema, options);
    KuduTable table = second.openTable("java.definition");
    Checks.equal(schema.getColumns(), table.getSchema().getColumns(), "columns");
    Checks.equal(2, table.getSchema().getPrimaryKeyColumnCount(), "key columns");
    Checks.equal("how many", table.getSchema().getColumn("count").getComment(), "comment of a column");
    Checks.equal(42L, table.getSchema().getColumn("count").getDefaultValue(), "default");
    Checks.equal("somebody", table.getOwner(), "owner");
    Checks.equal("a comment", table.getComment(), "comment");
    Checks.equal(1, table.getNumReplicas(), "replicas");
    Checks.equal(9, second.newScanTokenBuilder(table).build().size(), "tablets");
    Checks.equal(
        List.of("0 <= VALUES < 100", "100 <= VALUES < 200", "200 <= VALUES < 300"),
        table.getFormattedRangePartitions(10_000), "range partitions");
    Checks.holds(second.getTablesList("java.def").getTablesList().equals(List.of("java.definition")), "list");
    client.deleteTable("java.definition");
  }

  private static PartialRow id(Schema schema, int id) {
    PartialRow row = schema.newPartialRow();
    row.addInt("id", id);
    return row;
  }

  /** Two clients in turn: what one creates, the other opens, fills and reads at once. */
  void inTurn(int times) throws Exception {
    for (int i = 0; i < times; i++) {
      KuduClient maker = i % 2 == 0 ? client : second;
      KuduClient user = i % 2 == 0 ? second : client;
      // The same name again and again: nothing may be served from what is known of the table before.
      maker.createTable("java.in_turn", small(), byHash("id", 2));
      KuduTable table = user.openTable("java.in_turn");
      KuduSession session = user.newSession();
      for (int id = 0; id < 4; id++) {
        Insert insert = table.newInsert();
        insert.getRow().addInt("id", id);
        OperationResponse response = session.apply(insert);
        Checks.holds(!response.hasRowError(), "time " + i + ": " + response.getRowError());
      }
      session.close();
      KuduScanner scanner = user.newScannerBuilder(table).build();
      int rows = 0;
      while (scanner.hasMoreRows()) {
        rows += scanner.nextRows().getNumRows();
      }
      Checks.equal(4, rows, "rows, time " + i);
      maker.deleteTable("java.in_turn");
    }
  }
}
