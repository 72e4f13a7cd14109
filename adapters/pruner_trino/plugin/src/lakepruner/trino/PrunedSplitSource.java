package lakepruner.trino;

import io.trino.spi.connector.ConnectorSplitSource;
import java.lang.reflect.Method;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import lakepruner.trino.files.Dropped;
import lakepruner.trino.reflection.Forwarding;
import lakepruner.trino.reflection.Reflection;
import lakepruner.trino.scans.Scan;

/** Splits of one scan without those of files that hold no matching row. Nothing is listed before the plan is there. */
final class PrunedSplitSource extends Forwarding<ConnectorSplitSource> {
    private final Scan scan;

    private PrunedSplitSource(ConnectorSplitSource wrapped, Scan scan) {
        super(wrapped);
        this.scan = scan;
    }

    static ConnectorSplitSource over(ConnectorSplitSource wrapped, Scan scan) {
        return new PrunedSplitSource(wrapped, scan).as(ConnectorSplitSource.class);
    }

    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        switch (method.getName()) {
            case "getNextBatch":
                return withPlainErrors(scan.plan(arguments.length > 1 ? arguments[1] : null)
                        .thenCompose(dropped -> batch(method, arguments).thenCompose(batch -> filtered(batch, dropped))));
            case "getRequestedDynamicFilterWaitTimeoutMillis":
                return Math.max((long) forward(method, arguments), scan.dynamicFilterWaitMillis());
            case "close":
                scan.finish();
                return forward(method, arguments);
            default:
                return forward(method, arguments);
        }
    }

    private CompletableFuture<?> batch(Method method, Object[] arguments) {
        try {
            return (CompletableFuture<?>) forward(method, arguments);
        } catch (Throwable error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    /** A batch is a list of splits; up to version 476 an object that holds one and says whether it is the last. */
    private CompletableFuture<?> filtered(Object batch, Dropped dropped) {
        if (batch instanceof List<?> splits) {
            return scan.filtered(splits, dropped);
        }
        List<?> splits = (List<?>) Reflection.get(batch, "getSplits");
        Object last = Reflection.get(batch, "isNoMoreSplits");
        return scan.filtered(splits, dropped)
                .thenApply(kept -> Reflection.create(batch.getClass(), List.class, boolean.class, kept, (boolean) last));
    }

    /** Errors of the wrapped connector as it made them; each step of a future wraps what it passes on. */
    private static CompletableFuture<Object> withPlainErrors(CompletableFuture<?> steps) {
        CompletableFuture<Object> plain = new CompletableFuture<>();
        steps.whenComplete((found, error) -> {
            if (error == null) {
                plain.complete(found);
            } else {
                boolean wrapped = error instanceof CompletionException && error.getCause() != null;
                plain.completeExceptionally(wrapped ? error.getCause() : error);
            }
        });
        return plain;
    }
}
