import java.nio.file.Path;
import java.util.List;
import org.apache.kudu.client.KuduClient;

/**
 * A cluster through the Java client: `Main check MASTER TABLES`, `Main list MASTER`, `Main ddl|tables|scans MASTER`, `Main
 * tokens MASTER TABLE START END FILE` or `Main open-tokens MASTER FILE FILE`.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    String master = arguments[1];
    if (arguments[0].equals("list")) {
      try (KuduClient client = new KuduClient.KuduClientBuilder(master).build()) {
        client.getTablesList().getTablesList().forEach(System.out::println);
      }
      return;
    }
    if (List.of("ddl", "tables", "scans").contains(arguments[0])) {
      try (KuduClient client = new KuduClient.KuduClientBuilder(master).build();
          KuduClient other = new KuduClient.KuduClientBuilder(master).build()) {
        tell(arguments[0], client, other);
      }
      return;
    }
    if (arguments[0].endsWith("tokens")) {
      try (KuduClient client = new KuduClient.KuduClientBuilder(master).build()) {
        tokens(new Tokens(client), arguments);
      }
      return;
    }
    int tables = Integer.parseInt(arguments[2]);
    Checks checks = new Checks();
    try (KuduClient client = new KuduClient.KuduClientBuilder(master).build();
        KuduClient second = new KuduClient.KuduClientBuilder(master).build()) {
      Definitions definitions = new Definitions(client, second);
      checks.run("a_table_is_created_at_once", definitions::firstTable);
      checks.run("more_replicas_than_tablet_servers_are_refused", definitions::tooManyReplicas);
      checks.run("definitions_come_back_as_given", definitions::comeBackAsGiven);
      Alterations alterations = new Alterations(client);
      checks.run("columns_come_go_and_change", alterations::columns);
      checks.run("immutable_columns_keep_their_values", alterations::immutableColumns);
      checks.run("ranges_come_and_go", alterations::ranges);
      checks.run("a_renamed_table_is_the_same_table", alterations::names);
      checks.run("rows_of_one_key_are_counted", alterations::countedRows);
      checks.run("a_deleted_table_comes_back", alterations::recall);
      Rows rows = new Rows(client);
      checks.run("rows_of_every_type_follow_insert_upsert_update_delete", rows::everyType);
      checks.run("keys_of_every_type_are_ordered", rows::keysOfEveryType);
      checks.run("scans_by_predicate_projection_limit_and_token", rows::scans);
      Sessions sessions = new Sessions(client);
      checks.run("errors_are_reported_for_each_row", sessions::errorsForEachRow);
      checks.run("ignoring_operations_report_no_error", sessions::ignoringOperations);
      checks.run("flushes_beside_background_flushes_lose_nothing", sessions::flushBesideBackgroundFlush);
      checks.run("tables_made_by_one_client_are_open_to_another", () -> definitions.inTurn(tables));
    }
    System.exit(checks.finish());
  }

  private static void tell(String program, KuduClient client, KuduClient other) throws Exception {
    switch (program) {
      case "ddl":
        new Ddl(client, other).run();
        break;
      case "tables":
        new Tables(client).run();
        break;
      default:
        new Scans(client, other).run();
    }
  }

  private static void tokens(Tokens tokens, String[] arguments) throws Exception {
    if (arguments[0].equals("tokens")) {
      tokens.make(arguments[2], Long.parseLong(arguments[3]), Long.parseLong(arguments[4]), Path.of(arguments[5]));
    } else {
      tokens.open(Path.of(arguments[2]), Path.of(arguments[3]));
    }
  }
}
