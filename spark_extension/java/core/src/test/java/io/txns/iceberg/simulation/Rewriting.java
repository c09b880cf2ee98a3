package io.txns.iceberg.simulation;

import static net.bytebuddy.jar.asm.Opcodes.ACC_NATIVE;
import static net.bytebuddy.jar.asm.Opcodes.ACC_PRIVATE;
import static net.bytebuddy.jar.asm.Opcodes.ACC_STATIC;
import static net.bytebuddy.jar.asm.Opcodes.ACC_SYNCHRONIZED;
import static net.bytebuddy.jar.asm.Opcodes.ACC_SYNTHETIC;
import static net.bytebuddy.jar.asm.Opcodes.ALOAD;
import static net.bytebuddy.jar.asm.Opcodes.ASM9;
import static net.bytebuddy.jar.asm.Opcodes.ATHROW;
import static net.bytebuddy.jar.asm.Opcodes.F_SAME1;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKESTATIC;
import static net.bytebuddy.jar.asm.Opcodes.INVOKESPECIAL;
import static net.bytebuddy.jar.asm.Opcodes.INVOKESTATIC;
import static net.bytebuddy.jar.asm.Opcodes.IRETURN;
import static net.bytebuddy.jar.asm.Opcodes.MONITORENTER;
import static net.bytebuddy.jar.asm.Opcodes.MONITOREXIT;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.Label;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Type;

/**
 * Puts calls of {@link Replacements} in the place of what would ask the machine: for time,
 * randomness, threads, monitors, and for sets and maps whose order is another one in each JVM.
 */
final class Rewriting extends ClassVisitor {
  private static final String OWN = "io.txns.iceberg.simulation.";
  private static final String REPLACEMENTS = OWN.replace('.', '/') + "Replacements";

  /** Static methods whose replacements have the same name and descriptor. */
  private static final Map<String, Set<String>> REPLACED =
      Map.of(
          "java/lang/System", Set.of("currentTimeMillis", "nanoTime"),
          "java/lang/Thread", Set.of("sleep"),
          "java/lang/Math", Set.of("random"),
          "java/util/UUID", Set.of("randomUUID"),
          "java/util/Set", Set.of("copyOf"),
          "java/util/Map", Set.of("copyOf", "ofEntries"),
          "java/util/stream/Collectors", Set.of("toUnmodifiableSet", "toUnmodifiableMap"),
          "java/util/concurrent/Executors",
              Set.of(
                  "newFixedThreadPool",
                  "newCachedThreadPool",
                  "newSingleThreadExecutor",
                  "newScheduledThreadPool",
                  "newSingleThreadScheduledExecutor"));

  /** What lists its elements, in as many overloads as there may be: collected when it is linked. */
  private static final Set<String> LISTING = Set.of("java/util/Set", "java/util/Map");

  private static final Handle COLLECTING =
      new Handle(
          H_INVOKESTATIC,
          REPLACEMENTS,
          "collecting",
          "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;"
              + "Ljava/lang/invoke/MethodType;)Ljava/lang/invoke/CallSite;",
          false);

  /** What is said to a monitor, with the descriptor that it has as an object's. */
  private static final Map<String, String> MONITORS =
      Map.of("wait", "()V", "notify", "()V", "notifyAll", "()V");

  private static final String OF_AN_OBJECT = "(Ljava/lang/Object;)V";
  private static final String PAYLOADS = "io/txns/iceberg/log/Payloads";

  /** The one of the numbers there that says which payloads stand in their entry. */
  private static final Integer INLINE_MAX_BYTES = 64 * 1024;

  private static final String THREAD_RANDOM = "java/util/concurrent/ThreadLocalRandom";

  private String className;

  private Rewriting(ClassVisitor next) {
    super(ASM9, next);
  }

  /** Whether a class is one that asks the machine, and that the simulation is about. */
  static boolean concerns(String className) {
    return className.startsWith("org.apache.iceberg.")
        || (className.startsWith("io.txns.iceberg.") && !className.startsWith(OWN))
        || className.equals("org.apache.avro.file.DataFileWriter"); // marks blocks at random
  }

  /** A class file, rewritten. */
  static byte[] of(byte[] code) {
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new Rewriting(writer), 0);
    return writer.toByteArray();
  }

  @Override
  public void visit(
      int version, int access, String name, String signature, String parent, String[] interfaces) {
    className = name;
    super.visit(version, access, name, signature, parent, interfaces);
  }

  @Override
  public MethodVisitor visitMethod(
      int access, String name, String descriptor, String signature, String[] exceptions) {
    boolean isLocking = (access & ACC_SYNCHRONIZED) != 0 && (access & ACC_NATIVE) == 0;
    if (!isLocking) {
      return new Calls(super.visitMethod(access, name, descriptor, signature, exceptions));
    }
    String kept = name + "$unlocked";
    locking(access, name, kept, descriptor, signature, exceptions);
    int keptAccess = (access & ACC_STATIC) | ACC_PRIVATE | ACC_SYNTHETIC;
    return new Calls(super.visitMethod(keptAccess, kept, descriptor, signature, exceptions));
  }

  /** A synchronized method: takes the monitor, and calls what the method was before. */
  private void locking(
      int access,
      String name,
      String kept,
      String descriptor,
      String signature,
      String[] exceptions) {
    boolean isStatic = (access & ACC_STATIC) != 0;
    MethodVisitor code =
        super.visitMethod(access & ~ACC_SYNCHRONIZED, name, descriptor, signature, exceptions);
    Label start = new Label();
    Label end = new Label();
    Label thrown = new Label();
    code.visitCode();
    code.visitTryCatchBlock(start, end, thrown, null);
    say(code, "enter", isStatic);
    code.visitLabel(start);
    Mutating.loadArguments(code, isStatic, descriptor);
    code.visitMethodInsn(
        isStatic ? INVOKESTATIC : INVOKESPECIAL, className, kept, descriptor, false);
    code.visitLabel(end);
    say(code, "exit", isStatic);
    code.visitInsn(Type.getReturnType(descriptor).getOpcode(IRETURN));
    code.visitLabel(thrown);
    code.visitFrame(F_SAME1, 0, null, 1, new Object[] {"java/lang/Throwable"});
    say(code, "exit", isStatic);
    code.visitInsn(ATHROW);
    code.visitMaxs(0, 0);
    code.visitEnd();
  }

  /** Call a replacement with the monitor of a method. */
  private void say(MethodVisitor code, String name, boolean isStatic) {
    if (isStatic) {
      code.visitLdcInsn(Type.getObjectType(className));
    } else {
      code.visitVarInsn(ALOAD, 0);
    }
    code.visitMethodInsn(INVOKESTATIC, REPLACEMENTS, name, OF_AN_OBJECT, false);
  }

  /** Where a busy wait of Iceberg's waits for other threads: there are none. */
  private boolean waitsForThreads() {
    return className.startsWith("org/apache/iceberg/util/ParallelIterable");
  }

  private final class Calls extends MethodVisitor {
    private Calls(MethodVisitor next) {
      super(ASM9, next);
    }

    @Override
    public void visitInsn(int opcode) {
      switch (opcode) {
        case MONITORENTER -> replace("enter", OF_AN_OBJECT);
        case MONITOREXIT -> replace("exit", OF_AN_OBJECT);
        default -> super.visitInsn(opcode);
      }
    }

    @Override
    public void visitLdcInsn(Object value) {
      super.visitLdcInsn(value);
      if (className.equals(PAYLOADS) && value.equals(INLINE_MAX_BYTES)) {
        replace("inlineMaxBytes", "(I)I");
      }
    }

    @Override
    public void visitMethodInsn(
        int opcode, String owner, String name, String descriptor, boolean isInterface) {
      if (opcode == INVOKESTATIC && LISTING.contains(owner) && name.equals("of")) {
        super.visitInvokeDynamicInsn(name, descriptor, COLLECTING);
      } else if (opcode == INVOKESTATIC && isReplaced(owner, name)) {
        replace(name.equals("sleep") && waitsForThreads() ? "pass" : name, descriptor);
      } else if (descriptor.equals(MONITORS.get(name))) {
        replace(name, OF_AN_OBJECT);
      } else if (owner.equals("java/util/concurrent/TimeUnit") && name.equals("sleep")) {
        replace(name, "(Ljava/util/concurrent/TimeUnit;J)V");
      } else if (owner.equals("java/security/SecureRandom") && name.equals("nextBytes")) {
        replace(name, "(Ljava/security/SecureRandom;[B)V");
      } else if (opcode == INVOKESTATIC && owner.equals("java/time/Instant")) {
        replaceInstant(opcode, owner, name, descriptor);
      } else if (opcode == INVOKESTATIC && owner.equals(THREAD_RANDOM)) {
        replace("random", "()Ljava/util/Random;");
      } else {
        String target = owner.equals(THREAD_RANDOM) ? "java/util/Random" : owner;
        super.visitMethodInsn(opcode, target, name, descriptor, isInterface);
      }
    }

    private void replaceInstant(int opcode, String owner, String name, String descriptor) {
      if (name.equals("now")) {
        replace(name, descriptor);
      } else {
        super.visitMethodInsn(opcode, owner, name, descriptor, false);
      }
    }

    private void replace(String name, String descriptor) {
      super.visitMethodInsn(INVOKESTATIC, REPLACEMENTS, name, descriptor, false);
    }

    @Override
    public void visitInvokeDynamicInsn(
        String name, String descriptor, Handle bootstrap, Object... arguments) {
      Object[] replaced = Arrays.stream(arguments).map(Rewriting::replaced).toArray();
      super.visitInvokeDynamicInsn(name, descriptor, bootstrap, replaced);
    }
  }

  private static boolean isReplaced(String owner, String name) {
    return REPLACED.getOrDefault(owner, Set.of()).contains(name);
  }

  /** References to methods, as {@code UUID::randomUUID}. */
  private static Object replaced(Object argument) {
    if (!(argument instanceof Handle handle) || handle.getTag() != H_INVOKESTATIC) {
      return argument;
    }
    boolean lists = LISTING.contains(handle.getOwner()) && handle.getName().equals("of");
    if (lists && !handle.getDesc().startsWith("()")) {
      throw new IllegalStateException("no replacement for a reference to " + handle);
    }
    return isReplaced(handle.getOwner(), handle.getName())
        ? new Handle(H_INVOKESTATIC, REPLACEMENTS, handle.getName(), handle.getDesc(), false)
        : argument;
  }
}
