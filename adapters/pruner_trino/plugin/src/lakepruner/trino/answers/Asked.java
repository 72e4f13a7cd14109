package lakepruner.trino.answers;

import io.trino.spi.connector.ConnectorTableHandle;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** What came of the questions of each query, for the optimizer makes the same offer many times; and tables that are not known. */
final class Asked {
    /** Queries at once; one that is forgotten asks again. */
    private static final int QUERIES = 200;

    /** So long nothing is asked about a table that the service does not know, or a service that has no answers. */
    private static final long UNKNOWN_NANOS = TimeUnit.MINUTES.toNanos(1);

    private static final int TABLES = 10_000;

    /** The handle and what was asked of it. */
    record Key(ConnectorTableHandle table, Object offer) {}

    private final Map<String, Map<Key, Optional<Answer>>> answers = new LinkedHashMap<>();
    private final Map<String, Map<Key, Optional<ConnectorTableHandle>>> limits = new LinkedHashMap<>();
    private final Map<String, Long> unknown = new ConcurrentHashMap<>();

    synchronized Map<Key, Optional<Answer>> answers(String query) {
        return of(answers, query);
    }

    synchronized Map<Key, Optional<ConnectorTableHandle>> limits(String query) {
        return of(limits, query);
    }

    private static <V> Map<Key, V> of(Map<String, Map<Key, V>> queries, String query) {
        Map<Key, V> found = queries.computeIfAbsent(query, id -> new ConcurrentHashMap<>());
        if (queries.size() > QUERIES) {
            queries.remove(queries.keySet().iterator().next());
        }
        return found;
    }

    synchronized void forget(String query) {
        answers.remove(query);
        limits.remove(query);
    }

    boolean isUnknown(String table) {
        Long since = unknown.get(table);
        return since != null && System.nanoTime() - since < UNKNOWN_NANOS;
    }

    void setUnknown(String table) {
        if (unknown.size() >= TABLES) {
            unknown.clear();
        }
        unknown.put(table, System.nanoTime());
    }
}
