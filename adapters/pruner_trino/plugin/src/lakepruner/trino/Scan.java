package lakepruner.trino;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.Constraint;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.predicate.TupleDomain;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

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
    private final Set<String> displaced = new HashSet<>();
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
        try {
            TupleDomain<ColumnHandle> current = current(dynamicSnapshot);
            if (!current.equals(dynamic)) {
                dynamic = current;
                ask();
            }
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("the predicate is of a form that is not known", name(), error);
            plans = PLANS;
        }
        return latest;
    }

    /** Plans again where columns have turned out to have their values somewhere else. */
    private synchronized CompletableFuture<Dropped> planWithout(Set<String> columns) {
        if (displaced.addAll(columns)) {
            ask();
        }
        return latest;
    }

    private void ask() {
        Optional<ObjectNode> content = plans == PLANS ? Optional.empty() : content(dynamic);
        if (content.isEmpty()) {
            return;
        }
        plans++;
        CompletableFuture<Dropped> before = latest;
        latest = pruning.planner()
                .plan(names, session(content.get()), content.get())
                .thenApply(this::answered)
                .exceptionallyCompose(error -> failed(error, before));
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
        return new PredicateWriter(pruning.connector(), constraint.getAssignments(), displaced)
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

    /** The splits to read of a batch; never fails. */
    CompletableFuture<List<?>> filtered(List<?> splits, Dropped dropped) {
        listed.addAndGet(splits.size());
        if (dropped.ordinals().isEmpty()) {
            return CompletableFuture.completedFuture(splits);
        }
        try {
            List<Optional<SplitFile>> files = splits.stream().map(SplitFile::of).toList();
            Set<String> elsewhere = new HashSet<>();
            files.forEach(file -> file.map(dropped::displaced).ifPresent(elsewhere::addAll));
            CompletableFuture<Dropped> plan =
                    elsewhere.isEmpty() ? CompletableFuture.completedFuture(dropped) : planWithout(elsewhere);
            return plan.thenApply(found -> kept(splits, files, found));
        } catch (RuntimeException | LinkageError error) {
            pruning.failed("a split is of a form that is not known", name(), error);
            return CompletableFuture.completedFuture(splits);
        }
    }

    private List<?> kept(List<?> splits, List<Optional<SplitFile>> files, Dropped dropped) {
        List<?> kept = IntStream.range(0, splits.size())
                .filter(at -> files.get(at).filter(dropped::contains).isEmpty())
                .mapToObj(splits::get)
                .toList();
        left.addAndGet(splits.size() - kept.size());
        return kept;
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
