package lakepruner.trino.scans;

import java.util.Map;

/** Counts since the catalog was loaded. */
public interface PruningMXBean {
    long getScans();

    long getSplitsListed();

    long getSplitsDropped();

    long getPlans();

    long getPlanningMillis();

    /** Aggregates that metadata answered, and first rows that it narrowed. */
    long getAnswers();

    /** Scans that were read whole, by reason. */
    Map<String, Long> getUnpruned();
}
