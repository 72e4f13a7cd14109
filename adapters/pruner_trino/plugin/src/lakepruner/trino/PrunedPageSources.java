package lakepruner.trino;

import io.trino.spi.connector.ConnectorPageSourceProvider;
import io.trino.spi.connector.ConnectorPageSourceProviderFactory;
import java.lang.reflect.Method;
import lakepruner.trino.answers.AnswerPages;
import lakepruner.trino.reflection.Forwarding;

/** Page sources of the wrapped connector, and those of answers, which are one row. */
final class PrunedPageSources extends Forwarding<ConnectorPageSourceProvider> {
    private PrunedPageSources(ConnectorPageSourceProvider wrapped) {
        super(wrapped);
    }

    static ConnectorPageSourceProvider over(ConnectorPageSourceProvider wrapped) {
        return new PrunedPageSources(wrapped).as(ConnectorPageSourceProvider.class);
    }

    @Override
    protected Object call(Method method, Object[] arguments) throws Throwable {
        return method.getName().equals("createPageSource") && AnswerPages.isAsked(arguments)
                ? AnswerPages.of(arguments)
                : forward(method, arguments);
    }

    /** Makes them for each task. */
    static final class Factory extends Forwarding<ConnectorPageSourceProviderFactory> {
        private Factory(ConnectorPageSourceProviderFactory wrapped) {
            super(wrapped);
        }

        static ConnectorPageSourceProviderFactory over(ConnectorPageSourceProviderFactory wrapped) {
            return new Factory(wrapped).as(ConnectorPageSourceProviderFactory.class);
        }

        @Override
        protected Object call(Method method, Object[] arguments) throws Throwable {
            Object made = forward(method, arguments);
            return made instanceof ConnectorPageSourceProvider provider ? PrunedPageSources.over(provider) : made;
        }
    }
}
