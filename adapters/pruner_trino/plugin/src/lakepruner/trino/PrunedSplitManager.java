package lakepruner.trino;

import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.FixedSplitSource;
import java.lang.reflect.Method;
import java.util.Optional;
import lakepruner.trino.answers.Answer;
import lakepruner.trino.answers.AnswerSplit;
import lakepruner.trino.reflection.Forwarding;
import lakepruner.trino.scans.Pruning;
import lakepruner.trino.scans.Scan;

/** Lets the wrapped connector list a scan's splits, and puts the filter around them. */
final class PrunedSplitManager extends Forwarding<ConnectorSplitManager> {
    private final Connector connector;
    private final Pruning pruning;

    private PrunedSplitManager(ConnectorSplitManager wrapped, Connector connector, Pruning pruning) {
        super(wrapped);
        this.connector = connector;
        this.pruning = pruning;
    }

    static ConnectorSplitManager over(ConnectorSplitManager wrapped, Connector connector, Pruning pruning) {
        return new PrunedSplitManager(wrapped, connector, pruning).as(ConnectorSplitManager.class);
    }

    /**
     * Filters {@code getSplits(transaction, session, table, dynamic filter, constraint)}. The fourth is a {@code DynamicFilter}
     * up to version 476; later its values come with each batch. Splits of table functions have three arguments and pass.
     */
    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        if (method.getName().equals("getSplits") && arguments.length == 5 && arguments[2] instanceof Answer answer) {
            return new FixedSplitSource(new AnswerSplit(answer.told()));
        }
        Object result = forward(method, arguments);
        if (!method.getName().equals("getSplits")
                || arguments.length != 5
                || !(arguments[4] instanceof Constraint constraint)) {
            return result;
        }
        ConnectorSplitSource source = (ConnectorSplitSource) result;
        Optional<Scan> scan = pruning.scan(
                connector,
                (ConnectorTransactionHandle) arguments[0],
                (ConnectorSession) arguments[1],
                (ConnectorTableHandle) arguments[2],
                constraint,
                arguments[3]);
        return scan.map(found -> PrunedSplitSource.over(source, found)).orElse(source);
    }
}
