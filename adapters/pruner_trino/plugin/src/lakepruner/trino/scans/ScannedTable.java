package lakepruner.trino.scans;

import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import lakepruner.trino.reflection.Reflection;

/**
 * What a connector's table handle says of a scan.
 *
 * @param places names by which the service may know the table, without the catalog: its own name, its base path
 * @param domains predicates that the connector took from the optimizer, all of them needed
 * @param asOf the snapshot that is scanned and the schema that it is scanned by (docs/http.md), where the connector says it
 * @param isEnforced whether the connector applies all of them to rows itself
 * @param isRowsOfSnapshot whether it is the rows of a snapshot that are scanned, all that meet the predicates
 * @param files data files of the snapshot, looked up when they are asked for; empty where the connector does not say it
 * @param bypass why the scan must not be filtered: it reads for a statement that changes or measures the table
 */
public record ScannedTable(
        String schema,
        String table,
        Optional<String> basePath,
        List<TupleDomain<ColumnHandle>> domains,
        Optional<String> asOf,
        boolean isEnforced,
        boolean isRowsOfSnapshot,
        Supplier<OptionalLong> files,
        Optional<String> bypass) {
    /** Getters of Hive's, Hudi's and Iceberg's handles; one that a handle does not have says nothing. */
    private static final List<String> DOMAINS = List.of(
            "getCompactEffectivePredicate",
            "getEnforcedConstraint",
            "getPartitionPredicates",
            "getRegularPredicates",
            "getEnforcedPredicate",
            "getUnenforcedPredicate");

    public static ScannedTable of(Object handle, IcebergState state) {
        List<TupleDomain<ColumnHandle>> domains = new ArrayList<>();
        for (String getter : DOMAINS) {
            Reflection.find(handle, getter).map(ScannedTable::domain).filter(found -> !domains.contains(found)).ifPresent(domains::add);
        }
        Optional<String> bypass = bypass(handle);
        Optional<String> asOf = bypass.isEmpty() ? state.of(handle) : Optional.empty();
        return new ScannedTable(
                (String) Reflection.get(handle, "getSchemaName"),
                (String) Reflection.get(handle, "getTableName"),
                Reflection.find(handle, "getBasePath")
                        .or(() -> Reflection.find(handle, "getTableLocation"))
                        .map(String.class::cast),
                domains,
                asOf,
                Reflection.find(handle, "getUnenforcedPredicate").map(ScannedTable::domain).filter(TupleDomain::isAll).isPresent(),
                asOf.isPresent() && isWhole(handle),
                () -> state.files(handle),
                bypass);
    }

    /** Whether the handle of an Iceberg table is of its rows, and not of so many alone. */
    private static boolean isWhole(Object handle) {
        return Reflection.find(handle, "getTableType").map(Object::toString).equals(Optional.of("DATA"))
                && Reflection.find(handle, "getLimit").equals(Optional.of(OptionalLong.empty()))
                && Reflection.find(handle, "getMaxScannedFileSize").isEmpty();
    }

    /** By which the service may know the table, the likeliest first. */
    public List<String> names(String catalog) {
        List<String> names = new ArrayList<>();
        names.add(catalog + "." + schema + "." + table);
        basePath.ifPresent(names::add);
        return names;
    }

    private static Optional<String> bypass(Object handle) {
        if (Reflection.find(handle, "isRecordScannedFiles").equals(Optional.of(true))) {
            return Optional.of("bypassed: OPTIMIZE");
        }
        if (Reflection.find(handle, "getAnalyzePartitionValues").isPresent()
                || Reflection.find(handle, "getForAnalyze").equals(Optional.of(true))) {
            return Optional.of("bypassed: ANALYZE");
        }
        // Hudi's handle has a type of another meaning.
        if (Reflection.has(handle, "getTableSchemaJson")
                && !Reflection.get(handle, "getTableType").toString().equals("DATA")) {
            return Optional.of("bypassed: not the rows of a table");
        }
        if (IcebergState.snapshot(handle).filter(OptionalLong::isEmpty).isPresent()) {
            return Optional.of("bypassed: a table without rows");
        }
        Optional<Object> running =
                Reflection.find(handle, "getTransaction").map(found -> Reflection.get(found, "isAcidTransactionRunning"));
        if (Reflection.find(handle, "isAcidMerge").equals(Optional.of(true))
                || running.equals(Optional.of(true))
                || readsRowIds(handle)) {
            return Optional.of("bypassed: DELETE, UPDATE, MERGE");
        }
        return Optional.empty();
    }

    /** Iceberg's connector finds the rows to change by a column of its own. */
    private static boolean readsRowIds(Object handle) {
        return Reflection.find(handle, "getProjectedColumns").stream()
                .flatMap(columns -> ((Collection<?>) columns).stream())
                .anyMatch(column -> Reflection.find(column, "isMergeRowIdColumn").equals(Optional.of(true)));
    }

    @SuppressWarnings("unchecked")
    private static TupleDomain<ColumnHandle> domain(Object found) {
        return (TupleDomain<ColumnHandle>) found;
    }
}
