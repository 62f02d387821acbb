;; A hook on `context` that returns without giving its handle back.
(component
  (import "rind:plugin/handles@0.1.0" (instance $handles (export "conversation" (type (sub resource)))))
  (alias export $handles "conversation" (type $conversation))
  (core module $code
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    ;; An outcome without edits and effects: the memory is zero.
    (func (export "run") (param $handle i32) (result i32) (i32.const 64)))
  (core instance $core (instantiate $code))

  ;; As in `wit/`. The function may only speak of types that have a name, so each is exported.
  (type $replacement-type (record (field "id" string) (field "text" string)))
  (export $replacement "replacement" (type $replacement-type))
  (type $message-edit-type
    (variant (case "drop" string) (case "replace" $replacement) (case "append" string)))
  (export $message-edit "message-edit" (type $message-edit-type))
  (type $level-type (enum "debug" "info" "warn" "error"))
  (export $level "level" (type $level-type))
  (type $log-line-type (record (field "level" $level) (field "text" string)))
  (export $log-line "log-line" (type $log-line-type))
  (type $metric-type (record (field "name" string) (field "value" f64)))
  (export $metric "metric" (type $metric-type))
  (type $stored-type (record (field "key" string) (field "value" string)))
  (export $stored "stored" (type $stored-type))
  (type $effect-type
    (variant (case "log" $log-line) (case "metric" $metric) (case "store" $stored) (case "notify" $log-line)))
  (export $effect "effect" (type $effect-type))
  (type $edits (list $message-edit))
  (type $effects (list $effect))
  (type $context-outcome-type (record (field "edits" $edits) (field "effects" $effects)))
  (export $context-outcome "context-outcome" (type $context-outcome-type))
  (type $error-type
    (variant
      (case "invalid-input" string) (case "not-found" string) (case "denied" string) (case "limit" string)
      (case "failed" string)))
  (export $error "error" (type $error-type))

  (type $run
    (func (param "payload" (borrow $conversation))
      (result (result $context-outcome (error $error)))))
  (func $run (type $run)
    (canon lift (core func $core "run") (memory (core memory $core "memory")) (realloc (core func $core "realloc"))))
  (instance $context (export "run" (func $run)))
  (export "rind:plugin/context@0.1.0" (instance $context)))
