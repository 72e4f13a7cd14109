package lakepruner.trino.scans;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import lakepruner.trino.reflection.Reflection;

/**
 * What a connector's table handle says of a scan.
 *
 * @param places names by which the service may know the table, without the catalog: its own name, its base path
 * @param domains predicates that the connector took from the optimizer, all of them needed
 * @param bypass why the scan must not be filtered: it reads for a statement that changes or measures the table
 */
public record ScannedTable(
        String schema,
        String table,
        Optional<String> basePath,
        List<TupleDomain<ColumnHandle>> domains,
        Optional<String> bypass) {
    /** Getters of Hive's and Hudi's handles; one that a handle does not have says nothing. */
    private static final List<String> DOMAINS = List.of(
            "getCompactEffectivePredicate", "getEnforcedConstraint", "getPartitionPredicates", "getRegularPredicates");

    static ScannedTable of(Object handle) {
        List<TupleDomain<ColumnHandle>> domains = new ArrayList<>();
        for (String getter : DOMAINS) {
            Reflection.find(handle, getter).map(ScannedTable::domain).filter(found -> !domains.contains(found)).ifPresent(domains::add);
        }
        return new ScannedTable(
                (String) Reflection.get(handle, "getSchemaName"),
                (String) Reflection.get(handle, "getTableName"),
                Reflection.find(handle, "getBasePath").map(String.class::cast),
                domains,
                bypass(handle));
    }

    private static Optional<String> bypass(Object handle) {
        if (Reflection.find(handle, "isRecordScannedFiles").equals(Optional.of(true))) {
            return Optional.of("bypassed: OPTIMIZE");
        }
        if (Reflection.find(handle, "getAnalyzePartitionValues").isPresent()) {
            return Optional.of("bypassed: ANALYZE");
        }
        Optional<Object> running =
                Reflection.find(handle, "getTransaction").map(found -> Reflection.get(found, "isAcidTransactionRunning"));
        if (Reflection.find(handle, "isAcidMerge").equals(Optional.of(true)) || running.equals(Optional.of(true))) {
            return Optional.of("bypassed: DELETE, UPDATE, MERGE");
        }
        return Optional.empty();
    }

    @SuppressWarnings("unchecked")
    private static TupleDomain<ColumnHandle> domain(Object found) {
        return (TupleDomain<ColumnHandle>) found;
    }
}
