package lakepruner.trino;

import io.trino.spi.connector.AggregateFunction;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.SortItem;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import lakepruner.trino.answers.Answer;
import lakepruner.trino.answers.AnswerMetadata;
import lakepruner.trino.answers.Answering;
import lakepruner.trino.reflection.Forwarding;
import lakepruner.trino.scans.IcebergState;
import lakepruner.trino.scans.ScannedTable;

/** Iceberg's metadata, which is offered aggregates and first rows only where the service has no answer. */
final class PrunedMetadata extends Forwarding<ConnectorMetadata> {
    private final Connector connector;
    private final ConnectorTransactionHandle transaction;
    private final Answering answering;

    private PrunedMetadata(
            ConnectorMetadata wrapped, Connector connector, ConnectorTransactionHandle transaction, Answering answering) {
        super(wrapped);
        this.connector = connector;
        this.transaction = transaction;
        this.answering = answering;
    }

    static ConnectorMetadata over(
            ConnectorMetadata wrapped, Connector connector, ConnectorTransactionHandle transaction, Answering answering) {
        return new PrunedMetadata(wrapped, connector, transaction, answering).as(ConnectorMetadata.class);
    }

    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        Optional<?> found = switch (method.getName()) {
            case "applyAggregation" -> aggregated(arguments);
            case "applyTopN" -> limited(arguments);
            default -> Optional.empty();
        };
        if (method.getName().equals("cleanupQuery")) {
            answering.forget((ConnectorSession) arguments[0]);
        }
        return found.isPresent()
                ? found
                : AnswerMetadata.called(method, arguments, own -> forward(method, own));
    }

    @SuppressWarnings("unchecked")
    private Optional<?> aggregated(Object[] arguments) {
        if (arguments[1] instanceof Answer) {
            return Optional.empty();
        }
        return answering.aggregated(
                (ConnectorSession) arguments[0],
                (ConnectorTableHandle) arguments[1],
                scanned(arguments),
                (List<AggregateFunction>) arguments[2],
                (Map<String, ColumnHandle>) arguments[3],
                (List<List<ColumnHandle>>) arguments[4]);
    }

    @SuppressWarnings("unchecked")
    private Optional<?> limited(Object[] arguments) {
        if (arguments[1] instanceof Answer) {
            return Optional.empty();
        }
        return answering.limited(
                wrapped,
                (ConnectorSession) arguments[0],
                (ConnectorTableHandle) arguments[1],
                scanned(arguments),
                (long) arguments[2],
                (List<SortItem>) arguments[3],
                (Map<String, ColumnHandle>) arguments[4]);
    }

    private Supplier<ScannedTable> scanned(Object[] arguments) {
        ConnectorSession session = (ConnectorSession) arguments[0];
        return () -> ScannedTable.of(arguments[1], new IcebergState(connector, transaction, session));
    }
}
