//! Keeps a list of tasks that the model writes during longer work and the person sees.

#[rind_sdk::plugin]
mod todo {
    use rind_sdk::prelude::*;

    /// Key of the list of tasks in the session's state.
    const TASK_LIST_STATE_KEY: &str = "tasks";

    /// Maximum number of tasks; a longer list is refused.
    const MAX_TASKS: usize = 50;

    /// Maximum length of a task, in characters.
    const MAX_TASK_CHARS: usize = 300;

    /// State of a task.
    #[args]
    #[derive(Copy, PartialEq, rind_sdk::serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum TaskStatus {
        /// Not begun.
        Pending,
        /// Being worked on. At most one task is.
        InProgress,
        /// Finished, and checked.
        Done,
    }

    /// One task.
    #[args]
    #[derive(rind_sdk::serde::Serialize)]
    struct Task {
        /// Work to do, in one line.
        text: String,
        /// State of the task.
        status: TaskStatus,
    }

    /// Arguments of `todo_write`.
    #[args]
    struct WriteTodo {
        /// The whole list, in order; it takes the place of the one before. Empty clears it.
        tasks: Vec<Task>,
    }

    /// Writes the list of tasks, which the person sees. Use it for work of three or more steps: write the list before the first step,
    /// mark a task `in_progress` when you begin it and `done` as soon as it is finished. Leave it alone for small questions.
    #[tool(effect = "read")]
    fn todo_write(mut args: WriteTodo) -> Result<String, Error> {
        if args.tasks.len() > MAX_TASKS {
            let n = args.tasks.len();
            return Err(format!(
                "{n} tasks are too many; keep to {MAX_TASKS}, and put small steps together"
            )
            .into());
        }
        for task in &mut args.tasks {
            task.text = collapse_to_one_line(&task.text);
            if task.text.is_empty() {
                return Err("a task has no text".into());
            }
        }
        if count_tasks(&args.tasks, TaskStatus::InProgress) > 1 {
            return Err(
                "more than one task is in_progress; finish one before you begin the next".into(),
            );
        }
        state::set_json(TASK_LIST_STATE_KEY, &args.tasks)?;
        set_status_line(&args.tasks);
        Ok(format_task_list(&args.tasks))
    }

    /// Adds the open tasks to the system prompt of each turn, so that the model knows them after
    /// older messages were compacted.
    #[hook]
    fn system_prompt(about: PromptContext) -> Result<PromptOutcome, Error> {
        let tasks = read_tasks()?;
        set_status_line(&tasks);
        let is_open = tasks.iter().any(|task| task.status != TaskStatus::Done);
        // Add the list only for the main agent, which wrote the tasks, and only if it has the tool
        // that updates the list.
        let has_tool = about.tools.iter().any(|name| name == "todo_write");
        if caller::depth() > 0 || !is_open || !has_tool {
            return Ok(PromptOutcome::default());
        }
        let text = format!(
            "Your list of tasks, as you wrote it with todo_write:\n{}",
            format_task_list(&tasks)
        );
        Ok(PromptOutcome::part(PromptPart::new(
            Tier::Volatile,
            "tasks",
            text,
        )))
    }

    /// Shows the list of tasks. `/todo clear` empties it.
    #[command]
    fn todo(arguments: String) -> Result<String, Error> {
        match arguments.trim() {
            "" => Ok(format_task_list(&read_tasks()?)),
            "clear" => {
                state::remove(TASK_LIST_STATE_KEY)?;
                set_status_line(&[]);
                Ok("The list is empty.".to_owned())
            }
            other => Err(format!(
                "`{other}` is not an argument of /todo: type /todo or /todo clear"
            )
            .into()),
        }
    }

    fn read_tasks() -> Result<Vec<Task>, Error> {
        Ok(state::get_json(TASK_LIST_STATE_KEY)?.unwrap_or_default())
    }

    fn count_tasks(tasks: &[Task], status: TaskStatus) -> usize {
        tasks.iter().filter(|task| task.status == status).count()
    }

    fn set_status_line(tasks: &[Task]) {
        let n_done = count_tasks(tasks, TaskStatus::Done);
        let current = tasks
            .iter()
            .find(|task| task.status == TaskStatus::InProgress);
        status::set(&match current {
            _ if tasks.is_empty() => String::new(),
            Some(task) => format!("{n_done}/{} {}", tasks.len(), task.text),
            None => format!("{n_done}/{} done", tasks.len()),
        });
    }

    fn format_task_list(tasks: &[Task]) -> String {
        if tasks.is_empty() {
            return "The list is empty.".to_owned();
        }
        let line = |task: &Task| {
            let mark = match task.status {
                TaskStatus::Pending => "[ ]",
                TaskStatus::InProgress => "[>]",
                TaskStatus::Done => "[x]",
            };
            format!("{mark} {}", task.text)
        };
        tasks.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Joins the words of a text into one line without control characters, truncated to the maximum
    /// length.
    fn collapse_to_one_line(text: &str) -> String {
        let words = text.split(|c: char| c.is_whitespace() || c.is_control());
        let line = words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        line.chars().take(MAX_TASK_CHARS).collect()
    }
}
