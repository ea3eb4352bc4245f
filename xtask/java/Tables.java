import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kudu.ColumnSchema.ColumnSchemaBuilder;
import org.apache.kudu.Schema;
import org.apache.kudu.Type;
import org.apache.kudu.client.AlterTableOptions;
import org.apache.kudu.client.CreateTableOptions;
import org.apache.kudu.client.KuduClient;
import org.apache.kudu.client.KuduScanToken;
import org.apache.kudu.client.KuduTable;
import org.apache.kudu.client.KuduTableStatistics;
import org.apache.kudu.client.ListTablesResponse;
import org.apache.kudu.client.LocatedTablet;
import org.apache.kudu.client.Operation;

/** What tables can be beside rows and columns, told line by line. */
final class Tables {
  private final KuduClient client;
  private final Transcript told;

  Tables(KuduClient client) {
    this.client = client;
    this.told = new Transcript(client);
  }

  void run() throws Exception {
    awayAndBack();
    countedRows();
    immutableColumns();
    statistics();
    lists();
    names();
    limits();
  }

  private static CreateTableOptions hash(String column, int buckets) {
    return new CreateTableOptions().setNumReplicas(1).addHashPartitions(List.of(column), buckets);
  }

  private KuduTable make(String name) throws Exception {
    return client.createTable(name, Definitions.small(), hash("id", 2));
  }

  private void write(String what, Operation operation, Object... cells) {
    told.write(what, Transcript.with(operation, cells));
  }

  private void listed(String filter) {
    told.attempt("tables like " + filter, () -> sorted(client.getTablesList(filter).getTablesList()));
    told.attempt("deleted ones like " + filter, () -> sorted(client.getSoftDeletedTablesList(filter).getTablesList()));
  }

  private static List<String> sorted(List<String> names) {
    return names.stream().sorted().collect(Collectors.toList());
  }

  private void awayAndBack() throws Exception {
    told.title("deleted for a while");
    KuduTable table = make("told.away");
    write("a row", table.newInsert(), "id", 1, "text", "one");
    told.attempt("delete", () -> {
      client.deleteTable("told.away", 600);
      return null;
    });
    listed("told.a");
    told.attempt("delete again", () -> {
      client.deleteTable("told.away", 600);
      return null;
    });
    told.attempt("open", () -> client.openTable("told.away").getName());
    told.attempt("exists", () -> client.tableExists("told.away"));
    told.alter("alter", "told.away", new AlterTableOptions().setComment("x"));
    write("a write by an old handle", table.newInsert(), "id", 2);
    told.rows("a scan by an old handle", table, "id");
    told.attempt("statistics", () -> client.getTableStatistics("told.away") != null);
    told.attempt("recall", () -> {
      client.recallDeletedTable(table.getTableId());
      return null;
    });
    listed("told.a");
    told.rows("rows", client.openTable("told.away"), "id", "text");
    told.attempt("recall what is there", () -> {
      client.recallDeletedTable(table.getTableId());
      return null;
    });
    client.deleteTable("told.away", 600);
    told.attempt("a table of the same name", () -> make("told.away").getName());
    told.attempt("recall under another name", () -> {
      client.recallDeletedTable(table.getTableId(), "told.again");
      return null;
    });
    listed("told.a");
    told.attempt("the same table", () -> client.openTable("told.again").getTableId().equals(table.getTableId()));
    told.rows("its rows", client.openTable("told.again"), "id");
    client.deleteTable("told.again", 600);
    told.attempt("delete for good what is deleted", () -> {
      client.deleteTable("told.again");
      return null;
    });
    listed("told.a");
    told.attempt("recall what is gone", () -> {
      client.recallDeletedTable(table.getTableId());
      return null;
    });
    told.attempt("recall what never was", () -> {
      client.recallDeletedTable("0".repeat(32));
      return null;
    });
  }

  private void countedRows() throws Exception {
    told.title("keys that are not unique");
    Schema schema =
        new Schema(
            List.of(
                new ColumnSchemaBuilder("k", Type.INT32).nonUniqueKey(true).build(),
                new ColumnSchemaBuilder("v", Type.STRING).nullable(true).build()));
    KuduTable table = client.createTable("told.counted", schema, hash("k", 2));
    told.describe("told.counted");
    for (int i = 0; i < 4; i++) {
      write("row " + i, table.newInsert(), "k", 1, "v", "v" + i);
    }
    write("an insert that ignores", table.newInsertIgnore(), "k", 1, "v", "ignored");
    write("an upsert", table.newUpsert(), "k", 1, "v", "up");
    write("an upsert of a given row", table.newUpsert(), "k", 1, "auto_incrementing_id", 2L, "v", "up");
    write("an insert with a number", table.newInsert(), "k", 1, "auto_incrementing_id", 9L);
    write("an update", table.newUpdate(), "k", 1, "auto_incrementing_id", 2L, "v", "changed");
    write("an update of no row", table.newUpdate(), "k", 1, "auto_incrementing_id", 77L, "v", "x");
    write("a delete", table.newDelete(), "k", 1, "auto_incrementing_id", 3L);
    write("a row after it", table.newInsert(), "k", 1, "v", "after");
    told.rows("rows", table, "k", "auto_incrementing_id", "v");
    client.deleteTable("told.counted");
  }

  private void immutableColumns() throws Exception {
    told.title("columns that keep their values");
    Schema schema =
        new Schema(
            List.of(
                new ColumnSchemaBuilder("id", Type.INT32).key(true).build(),
                new ColumnSchemaBuilder("fixed", Type.STRING).nullable(true).immutable(true).build(),
                new ColumnSchemaBuilder("free", Type.INT32).nullable(true).build()));
    KuduTable table = client.createTable("told.fixed", schema, hash("id", 2));
    told.describe("told.fixed");
    write("insert", table.newInsert(), "id", 1, "fixed", "a", "free", 1);
    write("update", table.newUpdate(), "id", 1, "fixed", "b", "free", 2);
    write("update of the other", table.newUpdate(), "id", 1, "free", 3);
    write("update that ignores", table.newUpdateIgnore(), "id", 1, "fixed", "b", "free", 4);
    write("update that ignores, of it alone", table.newUpdateIgnore(), "id", 1, "fixed", "b");
    write("upsert", table.newUpsert(), "id", 1, "fixed", "b", "free", 5);
    write("upsert that ignores", table.newUpsertIgnore(), "id", 1, "fixed", "b", "free", 6);
    write("upsert of the same value", table.newUpsert(), "id", 1, "fixed", "a", "free", 7);
    write("upsert to null", table.newUpsert(), "id", 1, "fixed", null, "free", 8);
    write("upsert of a new row", table.newUpsert(), "id", 2, "fixed", "c", "free", 9);
    told.rows("rows", table, "id", "fixed", "free");
    write("delete", table.newDelete(), "id", 1);
    write("insert again", table.newInsert(), "id", 1, "fixed", "d");
    told.alter("free it", "told.fixed", new AlterTableOptions().changeImmutable("fixed", false));
    table = client.openTable("told.fixed");
    write("update", table.newUpdate(), "id", 1, "fixed", "e");
    told.rows("rows", table, "id", "fixed", "free");
    client.deleteTable("told.fixed");
  }

  private void statistics() throws Exception {
    told.title("statistics");
    KuduTable table = make("told.counts");
    for (int id = 0; id < 30; id++) {
      Operation insert = Transcript.with(table.newInsert(), "id", id);
      client.newSession().apply(insert);
    }
    for (int id = 0; id < 5; id++) {
      write("delete " + id, table.newDelete(), "id", id);
    }
    // They come with the servers' reports.
    KuduTableStatistics found = client.getTableStatistics("told.counts");
    for (int i = 0; i < 300 && found.getLiveRowCount() != 25; i++) {
      Thread.sleep(100);
      found = client.getTableStatistics("told.counts");
    }
    told.say("rows", found.getLiveRowCount());
    told.say("some bytes", found.getOnDiskSize() > 0);
    told.attempt("of no table", () -> client.getTableStatistics("told.nowhere"));
    client.deleteTable("told.counts");
  }

  private void lists() throws Exception {
    told.title("lists");
    List<String> names = List.of("told.a", "told.b", "told.ab", "other", "told.*", "told.\u00e9");
    for (String name : names) {
      make(name);
    }
    listed("told.");
    listed("b");
    listed("*");
    listed("");
    listed("TOLD");
    listed("\u00e9");
    ListTablesResponse all = client.getTablesList("told.");
    told.say("with ids", all.getTableInfosList().stream().allMatch(table -> table.getTableId().length() == 32));
    Map<String, String> ids = new TreeMap<>();
    for (ListTablesResponse.TableInfo table : all.getTableInfosList()) {
      ids.put(table.getTableName(), table.getTableId());
    }
    told.say("the ids are those of the tables", ids.get("told.a").equals(client.openTable("told.a").getTableId()));
    List<String> partitions = new ArrayList<>();
    for (KuduScanToken token : client.newScanTokenBuilder(client.openTable("told.a")).build()) {
      LocatedTablet tablet = token.getTablet();
      partitions.add(tablet.getPartition().toString() + " replicas " + tablet.getReplicas().size());
    }
    told.say("partitions", partitions);
    for (String name : names) {
      client.deleteTable(name);
    }
    listed("told.");
    told.attempt("delete what is gone", () -> client.deleteTable("told.a"));
  }

  private void names() throws Exception {
    told.title("names and ids");
    KuduTable table = make("told.first");
    told.alter("rename", "told.first", new AlterTableOptions().renameTable("told.second"));
    write("a row by the old handle", table.newInsert(), "id", 1);
    KuduTable renamed = client.openTable("told.second");
    told.say("the same id", renamed.getTableId().equals(table.getTableId()));
    told.attempt("a table of the old name", () -> make("told.first").getTableId().equals(table.getTableId()));
    told.rows("rows of the old handle", table, "id");
    told.rows("rows of the new table", client.openTable("told.first"), "id");
    told.attempt("a name that is taken", () -> make("told.second").getName());
    client.deleteTable("told.first");
    client.deleteTable("told.second");
    for (String name : List.of("", "x".repeat(257), "a\u0000b")) {
      told.attempt("a name of " + name.length() + " characters", () -> make(name).getName());
    }
  }

  private void limits() throws Exception {
    told.title("limits of definitions");
    List<org.apache.kudu.ColumnSchema> columns = new ArrayList<>();
    columns.add(new ColumnSchemaBuilder("id", Type.INT32).key(true).build());
    for (int i = 1; i < 301; i++) {
      columns.add(new ColumnSchemaBuilder("c" + i, Type.INT8).nullable(true).build());
    }
    told.attempt("301 columns", () -> client.createTable("told.wide", new Schema(columns), hash("id", 2)).getName());
    told.attempt("300 columns",
        () -> client.createTable("told.wide", new Schema(columns.subList(0, 300)), hash("id", 2)).getName());
    told.alter("one more", "told.wide", new AlterTableOptions().addNullableColumn("more", Type.INT8));
    client.deleteTable("told.wide");
    for (int replicas : new int[] {0, 2, 9}) {
      told.attempt(replicas + " replicas",
          () -> client.createTable("told.copies", Definitions.small(), hash("id", 2).setNumReplicas(replicas)).getName());
    }
    told.attempt("one bucket", () -> client.createTable("told.one", Definitions.small(), hash("id", 1)).getName());
    told.attempt("hash of no column",
        () -> client.createTable("told.none", Definitions.small(), hash("nothing", 2)).getName());
    told.attempt("hash of a value column",
        () -> client.createTable("told.none", Definitions.small(), hash("text", 2)).getName());
  }
}
