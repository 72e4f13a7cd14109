package lakepruner.trino.reflection;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/**
 * An object of one of Trino's interfaces that passes every call on, but those that a subclass takes.
 *
 * <p>The interfaces differ between versions of Trino; calls are told apart by name, so one jar serves them all and a
 * method that a later version adds is passed on as well.
 */
public abstract class Forwarding<T> implements InvocationHandler {
    protected final T wrapped;

    protected Forwarding(T wrapped) {
        this.wrapped = wrapped;
    }

    /** Takes a call, or passes it on with {@link #forward}. */
    protected abstract Object call(Method method, Object[] arguments) throws Throwable;

    @Override
    public final Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        return call(method, arguments == null ? new Object[0] : arguments);
    }

    protected final Object forward(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(wrapped, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    protected final T as(Class<T> type) {
        return type.cast(Proxy.newProxyInstance(Forwarding.class.getClassLoader(), new Class<?>[] {type}, this));
    }
}
