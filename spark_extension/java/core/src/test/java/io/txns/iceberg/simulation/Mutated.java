package io.txns.iceberg.simulation;

import io.txns.iceberg.simulation.Mutation.Body;
import io.txns.iceberg.simulation.Mutation.Original;
import io.txns.iceberg.simulation.Mutation.Target;
import java.lang.invoke.CallSite;
import java.lang.invoke.ConstantCallSite;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Set;
import java.util.TreeSet;

/**
 * What mutated classes ask, and which of their targets have: a protection that nobody asks is none.
 *
 * <p>Public, since other packages' byte code names it.
 */
public final class Mutated {
  private static final Set<String> ASKED = new TreeSet<>();

  private Mutated() {}

  /** Links a method, or a call, to its body of the mutation that is running. */
  public static CallSite link(
      MethodHandles.Lookup caller,
      String name,
      MethodType type,
      MethodHandle original,
      String target)
      throws ReflectiveOperationException {
    MethodHandle ask =
        MethodHandles.lookup()
            .findStatic(
                Mutated.class,
                "ask",
                MethodType.methodType(Object.class, Target.class, Original.class, Object[].class));
    MethodHandle spread =
        original
            .asFixedArity()
            .asType(type.generic())
            .asSpreader(Object[].class, type.parameterCount());
    Original before = arguments -> spread.invoke(arguments);
    return new ConstantCallSite(
        MethodHandles.insertArguments(ask, 0, Mutations.running(target), before)
            .asCollector(Object[].class, type.parameterCount())
            .asType(type));
  }

  private static Object ask(Target target, Original original, Object[] arguments) throws Throwable {
    synchronized (ASKED) {
      ASKED.add(target.key());
    }
    try {
      return target.body().of(original, arguments);
    } catch (ClassCastException | IndexOutOfBoundsException e) {
      refuseOwn(target.body(), e);
      throw e;
    }
  }

  /**
   * A body that does not take what it is given would be found as a crash, whatever it takes away.
   */
  private static void refuseOwn(Body body, RuntimeException e) {
    StackTraceElement[] trace = e.getStackTrace();
    if (trace.length > 0 && body.getClass().getName().startsWith(trace[0].getClassName())) {
      throw new LinkageError("a mutation does not fit what it takes the place of", e);
    }
  }

  /** The targets of the mutation that is running which have not been asked so far. */
  static Set<String> unasked() {
    Set<String> unasked = new TreeSet<>();
    Mutations.running().forEach(target -> unasked.add(target.key()));
    synchronized (ASKED) {
      unasked.removeAll(ASKED);
    }
    return unasked;
  }
}
