package lakepruner.trino.scans;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The scans of each query whose plans nobody has asked for yet. The first that needs its plan asks for all of them.
 *
 * <p>Trino makes the split sources of all stages before it asks the first of them for splits (docs/trino.md). Where it does
 * not, as with fault-tolerant execution, there are fewer together, and a scan that comes later asks for itself.
 */
public final class Gatherings {
    /** Queries that wait at once; a scan of one that is forgotten asks for itself. */
    private static final int QUERIES = 1_000;

    private final Map<String, List<Scan>> waiting = new LinkedHashMap<>();

    public synchronized void join(Scan scan) {
        waiting.computeIfAbsent(scan.queryId(), query -> new ArrayList<>()).add(scan);
        if (waiting.size() > QUERIES) {
            waiting.remove(waiting.keySet().iterator().next());
        }
    }

    /** The scans to ask for now, each given out once: this one, unless another has taken it, and those that wait with it. */
    public synchronized List<Scan> take(Scan scan) {
        List<Scan> found = waiting.remove(scan.queryId());
        List<Scan> together = found == null ? new ArrayList<>() : found;
        if (!together.contains(scan)) {
            together.add(scan);
        }
        return together.stream().filter(Scan::claim).toList();
    }

    /** A scan that ended before anybody asked for it. */
    public synchronized void leave(Scan scan) {
        List<Scan> found = waiting.get(scan.queryId());
        if (found != null && found.remove(scan) && found.isEmpty()) {
            waiting.remove(scan.queryId());
        }
    }
}
