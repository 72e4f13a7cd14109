package lakepruner.trino.scans;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Logger;
import lakepruner.trino.client.PlannerClient;
import lakepruner.trino.client.Settings;

/** What the scans of one catalog share, and the decision which of them are pruned at all. Never fails a query. */
public record Pruning(
        Settings settings,
        PlannerClient planner,
        Gatherings gatherings,
        Counters counters,
        String name,
        String trinoVersion) {
    /** The session property that switches pruning on and off. */
    public static final String SWITCH = "pruning_enabled";

    static final String LOGGER = "lakepruner";

    /**
     * Session properties that say that files' columns are found by their names, as the planner finds them; Iceberg's are
     * found by their ids in any case.
     */
    private static final Map<String, String> BY_NAME =
            Map.of("hive", "parquet_use_column_names", "hudi", "use_parquet_column_names");

    private static final Logger LOG = Logger.getLogger(LOGGER);

    /** A scan that may be pruned; empty, with the reason counted, where its splits must pass as they are. */
    public Optional<Scan> scan(
            Connector connector,
            ConnectorTransactionHandle transaction,
            ConnectorSession session,
            ConnectorTableHandle table,
            Constraint constraint,
            Object dynamicFilter) {
        try {
            if (!session.getProperty(SWITCH, Boolean.class)) {
                counters.unpruned("switched off");
                return Optional.empty();
            }
            String byName = BY_NAME.get(name);
            if (byName != null && !session.getProperty(byName, Boolean.class)) {
                counters.unpruned("columns are read by their position");
                return Optional.empty();
            }
            ScannedTable scanned = ScannedTable.of(table, new IcebergState(connector, transaction, session));
            if (scanned.bypass().isPresent()) {
                counters.unpruned(scanned.bypass().get());
                return Optional.empty();
            }
            Scan scan = new Scan(this, session, scanned, constraint, dynamicFilter);
            gatherings.join(scan);
            return Optional.of(scan);
        } catch (RuntimeException | LinkageError error) {
            failed("the scan is of a form that is not known", String.valueOf(table), error);
            return Optional.empty();
        }
    }

    /** Counts and logs why a scan is read whole. */
    void failed(String reason, String table, Throwable error) {
        counters.unpruned(reason);
        LOG.warning("table " + table + " is read whole: " + reason + ": " + error.getMessage());
    }

    void finished(String table, long listed, long dropped, String plan) {
        counters.finished(listed, dropped);
        LOG.info("table " + table + ": " + (listed - dropped) + " of " + listed + " splits kept; " + plan);
    }

    /** Whose rules a question follows. */
    public ObjectNode session(String zone, boolean isOfSnapshot) {
        ObjectNode session = JsonNodeFactory.instance.objectNode();
        session.put("engine", "trino");
        session.put("version", trinoVersion);
        session.put("zone", zone);
        // Neither Hive's connector nor Hudi's reads Hudi's log files; of an Iceberg table all is read that belongs to it.
        session.put("scan_mode", isOfSnapshot ? "snapshot" : "read_optimized");
        return session;
    }

    /** Counts an offer of the optimizer that was taken. */
    public void answered() {
        counters.answered();
    }

    /** Logs why none was, where that is no matter of course. */
    public void unanswered(String table, Throwable error) {
        LOG.warning("table " + table + " is not answered from metadata: " + error.getMessage());
    }

    public void close() {
        planner.close();
    }
}
