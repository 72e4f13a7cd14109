package lakepruner.trino;

import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.Constraint;
import io.trino.spi.type.TimeZoneKey;
import java.lang.reflect.Proxy;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What no server can be made to do: settings that are refused, and splits and filters of a form that no Trino has yet. */
public final class PluginEdges {
    private PluginEdges() {}

    /** A split that has a path and nothing else. */
    public record OddSplit(String path) {
        public String getPath() {
            return path;
        }
    }

    /** A dynamic filter whose predicate is none. */
    public record OddFilter(String currentPredicate) {}

    public static void main(String[] arguments) {
        refused(Map.of("pruner.url", "http://127.0.0.1:1", "pruner.timeout", "0s"));
        refused(Map.of("pruner.url", "http://127.0.0.1:1", "pruner.token-file", arguments[0]));
        Settings settings = Settings.of(Map.of("pruner.url", "http://127.0.0.1:1"), "lake");
        Pruning pruning = new Pruning(
                settings, new PlannerClient(settings), Counters.registered("lake"), "hive", "a later version");
        ConnectorSession session = (ConnectorSession) Proxy.newProxyInstance(
                PluginEdges.class.getClassLoader(),
                new Class<?>[] {ConnectorSession.class},
                (proxy, method, values) -> method.getName().equals("getTimeZoneKey") ? TimeZoneKey.UTC_KEY : null);
        ScannedTable table = new ScannedTable("web", "flights", Optional.empty(), List.of(), Optional.empty());
        Scan scan = new Scan(pruning, session, table, Constraint.alwaysTrue(), null);
        System.out.println(scan.plan(new OddFilter("odd")).join() == Dropped.NOTHING ? "nothing dropped" : "dropped");
        BitSet all = new BitSet();
        all.set(0);
        Dropped dropped = new Dropped(new SnapshotKeys("s", new byte[16]), all, Long.MAX_VALUE, Placement.NONE);
        List<OddSplit> splits = List.of(new OddSplit("/lake/a.parquet"));
        System.out.println(scan.filtered(splits, dropped).join().equals(splits) ? "all splits read" : "splits lost");
        pruning.counters().getUnpruned().forEach((reason, count) -> System.out.println(reason + ": " + count));
        System.exit(0);
    }

    private static void refused(Map<String, String> properties) {
        try {
            Settings.of(properties, "lake");
            System.out.println("taken");
        } catch (IllegalArgumentException error) {
            System.out.println(error.getMessage());
        }
    }
}
