package lakepruner.trino;

import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.SortOrder;
import io.trino.spi.predicate.Domain;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.TimeZoneKey;
import java.lang.reflect.Proxy;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import lakepruner.trino.answers.Threshold;
import lakepruner.trino.client.PlannerClient;
import lakepruner.trino.client.Settings;
import lakepruner.trino.files.Dropped;
import lakepruner.trino.files.Placement;
import lakepruner.trino.files.SnapshotKeys;
import lakepruner.trino.scans.Counters;
import lakepruner.trino.scans.Gatherings;
import lakepruner.trino.scans.Pruning;
import lakepruner.trino.scans.Scan;
import lakepruner.trino.scans.ScannedTable;

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
        refused(Map.of("pruner.url", "http://127.0.0.1:1", "pruner.answer-min-files", "-1"));
        Settings settings = Settings.of(Map.of("pruner.url", "http://127.0.0.1:1"), "lake");
        Pruning pruning = new Pruning(
                settings,
                new PlannerClient(settings),
                new Gatherings(),
                Counters.registered("lake"),
                "hive",
                "a later version");
        Scan scan = scan(pruning, "a query");
        System.out.println(scan.plan(new OddFilter("odd")).join() == Dropped.NOTHING ? "nothing dropped" : "dropped");
        BitSet all = new BitSet();
        all.set(0);
        Dropped dropped = new Dropped(new SnapshotKeys("s", new byte[16]), all, Long.MAX_VALUE, Placement.NONE);
        List<OddSplit> splits = List.of(new OddSplit("/lake/a.parquet"));
        System.out.println(scan.filtered(splits, dropped).join().equals(splits) ? "all splits read" : "splits lost");
        gathered(pruning);
        thresholds();
        pruning.counters().getUnpruned().forEach((reason, count) -> System.out.println(reason + ": " + count));
        System.exit(0);
    }

    private static void thresholds() {
        for (SortOrder order : SortOrder.values()) {
            Domain domain = Threshold.domain(BigintType.BIGINT, "7", order);
            String kept = Stream.of(6L, 7L, 8L, null)
                    .filter(domain::includesNullableValue)
                    .map(String::valueOf)
                    .collect(Collectors.joining(" "));
            System.out.println(order + " to 7 keeps " + kept);
        }
    }

    private static Scan scan(Pruning pruning, String query) {
        ConnectorSession session = (ConnectorSession) Proxy.newProxyInstance(
                PluginEdges.class.getClassLoader(),
                new Class<?>[] {ConnectorSession.class},
                (proxy, method, values) -> switch (method.getName()) {
                    case "getTimeZoneKey" -> TimeZoneKey.UTC_KEY;
                    case "getQueryId" -> query;
                    default -> null;
                });
        ScannedTable table = new ScannedTable(
                "web", "flights", Optional.empty(), List.of(), Optional.empty(), false, false, OptionalLong::empty, Optional.empty());
        return new Scan(pruning, session, table, Constraint.alwaysTrue(), Set.of());
    }

    /** Each scan is given out once, with those of its query alone; one that was forgotten is given out by itself. */
    private static void gathered(Pruning pruning) {
        Gatherings gatherings = new Gatherings();
        List<Scan> scans = List.of("a", "b", "a", "a").stream().map(query -> scan(pruning, query)).toList();
        scans.forEach(gatherings::join);
        gatherings.leave(scans.get(3));
        System.out.println("together " + gatherings.take(scans.get(2)).equals(List.of(scans.get(0), scans.get(2))));
        System.out.println("once " + gatherings.take(scans.get(0)).isEmpty());
        for (int query = 0; query < 1_001; query++) {
            gatherings.join(scan(pruning, "later " + query));
        }
        System.out.println("forgotten " + gatherings.take(scans.get(1)).equals(List.of(scans.get(1))));
        Scan odd = scan(pruning, "odd");
        Scan other = scan(pruning, "odd");
        pruning.gatherings().join(odd);
        pruning.gatherings().join(other);
        odd.plan(new OddFilter("odd")).join();
        System.out.println("other " + (other.plan(null).join() == Dropped.NOTHING));
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
