package lakepruner.trino;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.Constraint;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** One scan: asks for its plan before its first split, again when dynamic filters have more to say, and counts. */
final class Scan {
    /** Plans of one scan: dynamic filters can grow with every batch, and each plan costs a request. */
    private static final int PLANS = 4;

    private final Pruning pruning;
    private final ScannedTable table;
    private final Constraint constraint;
    private final Object dynamicFilter;
    private final String zone;
    private final List<String> names = new ArrayList<>();
    private final AtomicLong listed = new AtomicLong();
    private final AtomicLong left = new AtomicLong();
    private final AtomicBoolean finished = new AtomicBoolean();

    private CompletableFuture<Dropped> latest = CompletableFuture.completedFuture(Dropped.NOTHING);
    private TupleDomain<ColumnHandle> dynamic;
    private int plans;
    private volatile String report = "nothing to prune by";

    Scan(Pruning pruning, ConnectorSession session, ScannedTable table, Constraint constraint, Object dynamicFilter) {
        this.pruning = pruning;
        this.table = table;
        this.constraint = constraint;
        this.dynamicFilter = dynamicFilter;
        this.zone = session.getTimeZoneKey().getId();
        names.add(pruning.settings().catalog() + "." + table.schema() + "." + table.table());
        table.basePath().ifPresent(names::add);
    }

    long dynamicFilterWaitMillis() {
        return pruning.settings().dynamicFilterWait().toMillis();
    }

    /** The files to leave out by what is known now; never fails. */
    synchronized CompletableFuture<Dropped> plan(Object dynamicSnapshot) {
        TupleDomain<ColumnHandle> current = current(dynamicSnapshot);
        if (plans == PLANS || current.equals(dynamic)) {
            return latest;
        }
        dynamic = current;
        Optional<ObjectNode> content;
        try {
            content = content(current);
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("the predicate is of a form that is not known", name(), error);
            plans = PLANS;
            return latest;
        }
        if (content.isEmpty()) {
            return latest;
        }
        plans++;
        CompletableFuture<Dropped> before = latest;
        latest = pruning.planner()
                .plan(names, session(content.get()), content.get())
                .thenApply(this::answered)
                .exceptionallyCompose(error -> failed(error, before));
        return latest;
    }

    private TupleDomain<ColumnHandle> current(Object snapshot) {
        Optional<Object> found = snapshot != null
                ? Reflection.find(snapshot, "currentPredicate")
                : Reflection.find(dynamicFilter, "getCurrentPredicate");
        @SuppressWarnings("unchecked")
        TupleDomain<ColumnHandle> domain = (TupleDomain<ColumnHandle>) found.orElse(TupleDomain.all());
        return domain;
    }

    /** The predicate as JSON; empty when it says nothing. */
    private Optional<ObjectNode> content(TupleDomain<ColumnHandle> current) {
        List<TupleDomain<ColumnHandle>> domains = new ArrayList<>(table.domains());
        domains.add(constraint.getSummary());
        domains.add(current);
        domains.removeIf(TupleDomain::isAll);
        // Version 476 has neither the expression of a scan nor names for its columns.
        ConnectorExpression expression = constraint.getExpression();
        return new PredicateWriter(pruning.connector(), constraint.getAssignments())
                .content(domains.stream().distinct().toList(), expression);
    }

    private ObjectNode session(ObjectNode content) {
        ObjectNode session = JsonNodeFactory.instance.objectNode();
        session.put("engine", "trino");
        session.put("version", pruning.trinoVersion());
        session.put("zone", zone);
        TimestampUnit.coarsest(content.get("columns")).ifPresent(unit -> session.put("timestamp_unit", unit));
        // Neither connector reads Hudi's log files.
        session.put("scan_mode", "read_optimized");
        return session;
    }

    private Dropped answered(PlannerClient.Answer answer) {
        pruning.counters().planned(answer.millis());
        report = answer.summary();
        return answer.dropped();
    }

    private CompletableFuture<Dropped> failed(Throwable error, CompletableFuture<Dropped> before) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        String reason = PlannerError.reason(cause);
        pruning.failed(reason, name(), cause);
        report = reason;
        return before;
    }

    List<?> filtered(List<?> splits, Dropped dropped) {
        listed.addAndGet(splits.size());
        List<?> kept = splits.stream().filter(split -> !isDropped(split, dropped)).toList();
        left.addAndGet(splits.size() - kept.size());
        return kept;
    }

    private static boolean isDropped(Object split, Dropped dropped) {
        return SplitFile.of(split).filter(dropped::contains).isPresent();
    }

    void finish() {
        if (finished.compareAndSet(false, true)) {
            pruning.finished(name(), listed.get(), left.get(), report);
        }
    }

    private String name() {
        return names.getFirst();
    }
}
