//! What every ledger promises. Each function is one promise; `contract!` runs all of them on each store.

mod a2a_tasks;
mod acts;
mod alerts;
mod budgets;
mod claim;
mod door;
mod fail;
mod files;
mod guards;
mod life;
mod lists;
mod loans;
mod lost;
mod old_tasks;
mod people;
mod pushes;
mod questions;
mod quotas;
mod reads;
mod replies;
mod rounds;
mod shares;
mod storage;
mod surface;
mod tasks;
mod together;

/// Runs every promise on every store. A promise that is not listed is dead code, and the build says so.
macro_rules! contract {
    ($($store:ident: $fixture:ty),* ; $promises:tt) => {
        $(contract!(@store $store $fixture $promises);)*
    };
    (@store $store:ident $fixture:ty { $($module:ident { $($promise:ident),* $(,)? })* }) => {
        mod $store {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    crate::contract::$module::$promise::<$fixture>().await;
                })*
            })*
        }
    };
}

contract! {
    memory: crate::fixture::InMemory,
    sqlite: crate::fixture::OnDisk,
    postgres: crate::fixture::OnPostgres;
    {
        alerts {
            receivers_come_back_until_their_session_ends,
            alerts_are_sent_in_order,
            shown_alerts_are_walked_and_kept,
            one_push_key_is_kept,
        }
        quotas {
            reports_are_kept_by_node_and_home,
            what_is_kept_for_people_is_left_to_them,
            slowed_agents_take_turns_one_at_a_time,
            room_before_its_time_lets_go_of_who_waits,
            each_home_waits_for_its_own_account,
        }
        life {
            a_message_goes_from_receipt_to_done,
            every_value_comes_back_as_it_was_written,
            a_row_shown_twice_is_one_message,
            a_full_backlog_pushes_back,
            a_thread_is_bound_and_let_go,
        }
        loans {
            lent_messages_wait_until_the_end,
            turns_are_taken_over_once,
            another_loan_is_a_conflict,
        }
        claim {
            people_go_first_and_then_the_oldest,
            one_message_of_a_conversation_is_in_flight,
            a_waiting_head_blocks_only_its_conversation,
            the_cap_is_kept,
            a_message_that_spent_its_attempts_is_buried,
            d8_kills_before_a_turn_have_a_reason,
            a_message_that_comes_back_goes_before_those_behind_it,
            a_returning_message_waits_for_the_flight_of_a_later_one,
        }
        door {
            a_page_and_its_cursor_are_on_disk_together,
            d2_a_former_id_is_known,
            a_full_backlog_leaves_the_cursor_where_it_was,
            another_talk_is_another_conversation,
            commands_are_answered_at_the_door_and_once,
            new_lets_the_conversation_go,
            agents_that_answer_each_other_are_stopped,
            an_agent_that_never_pauses_waits,
            a_flood_goes_on_at_its_rate,
            an_empty_message_is_answered,
            an_agent_with_many_talks_is_counted_within_one,
            a_slow_loop_in_one_talk_is_found_among_others,
            a_loop_that_begins_a_talk_each_time_waits,
            the_loop_guard_counts_as_configured,
            an_old_program_s_conversations_are_taken_over_once,
        }
        people {
            figures_tell_what_the_states_do_not,
            what_people_did_to_a_message_is_kept_with_its_name,
            the_reason_that_is_told_is_the_one_that_holds,
            a_suspect_waits_for_another_one_and_says_so,
        }
        questions {
            a_question_is_a_row_that_is_known_again,
            the_same_name_for_something_else_is_another_question,
            one_of_a_thousand_decisions_counts,
            f2_a_decider_stays_who_it_is,
            invalid_decisions_are_rejected_with_reason,
            an_orphan_is_granted_and_the_grant_answers_once,
            an_orphan_that_is_asked_again_carries_on,
            silence_is_a_no_and_one_reminder_comes_before_it,
            questions_end_with_their_turn,
            a_no_that_ends_the_turn_ends_the_message,
            a_decision_that_codex_does_not_hear_is_kept_or_withdrawn,
            f10_stale_undelivered_report_grants_nothing,
            an_answer_is_forgotten_when_it_was_told,
            a_word_in_the_chat_counts_from_the_right_sender_only,
            a_turn_that_waits_for_a_person_takes_no_place,
            questions_come_in_pages,
        }
        replies {
            a_lane_sends_in_order_of_messages_and_pieces,
            a_notice_keeps_its_place_in_the_lane,
            a_refused_reply_waits_or_dies,
            an_unknown_outcome_is_sent_again,
            lanes_are_listed_in_pages,
            replies_that_say_the_same_are_found,
        }
        fail {
            each_class_leads_where_it_should,
            a_wait_for_capacity_ends_when_it_was_said,
            a_touched_turn_is_continued,
        }
        lost {
            an_answer_in_the_history_is_harvested,
            a_turn_that_runs_is_followed_again,
            a_turn_that_is_not_there_is_begun_again,
            a_foreign_thread_counts_as_absent,
            an_unreadable_history_lets_the_thread_go,
            resume_brings_every_state_to_where_it_can_go_on,
        }
        guards {
            a_refused_transition_leaves_nothing,
            a_conflict_undoes_the_changes_before_it,
            every_guard_is_kept,
            an_older_opening_is_fenced,
        }
        reads {
            ids_are_found_by_their_beginning,
            unfinished_messages_come_in_pages,
            the_newest_messages_come_first,
            events_are_bounded,
            incarnations_live_until_they_end,
            turns_count_on_their_process,
            a_reader_knows_what_a_message_waits_behind,
            files_are_named_by_messages_and_replies_as_long_as_they_are_kept,
            only_quiet_conversations_give_up_their_threads,
        }
        rounds {
            senders_take_turns,
            one_suspect_works_at_a_time,
            writers_of_one_directory_take_turns,
            a_channel_has_its_own_cap,
            a_lost_turn_that_cannot_be_seen_takes_no_place,
        }
        shares {
            f3_people_keep_a_place,
            f3_only_owners_have_kept_places,
            f3_one_sender_has_its_share,
            f3_questions_fill_a_sender_s_share_only,
            f3_shares_hold_whatever_arrives,
        }
        storage {
            f4_bytes_of_a_day_are_bounded,
            f4_nothing_is_counted_without_a_budget,
            f4_a_feed_keeps_an_excerpt,
            f4_a_refused_message_is_kept_as_excerpt,
            f4_files_of_refused_messages_count,
            f4_revoking_cancels_what_has_not_begun,
            f4_a_revoked_token_takes_nothing_in,
            f4_a_revoked_admin_session_takes_nothing_in,
            f4_stopping_a_sender_ends_everything,
            f4_a_joined_message_is_told_apart,
            f4_a_sender_is_stopped_in_batches,
        }
        files {
            pieces_of_a_file_follow_each_other,
            a_file_about_to_be_named_stays,
            old_files_are_listed_in_order,
        }
        acts {
            a_finished_row_shown_again_changes_nothing,
            what_waits_is_cancelled_at_once_and_what_runs_when_it_ended,
            retries_wait_until_their_time,
            a_dead_letter_is_sent_again_at_the_end_of_its_conversation,
            an_answer_that_could_not_be_delivered_is_delivered_again_without_a_turn,
            a_parked_message_goes_on_or_is_given_up,
            a_follower_is_answered_if_it_was_heard,
            a_follower_waits_again_when_its_leader_is_cut,
            a_follower_that_is_stopped_gets_no_turn_of_its_own,
            an_unfit_row_is_a_dead_letter_at_once,
            an_old_dead_letter_that_is_sent_again_is_young,
            a_lost_word_about_a_wait_takes_no_answer_with_it,
            a_turn_that_ran_out_of_time_ends_its_message_however_it_ended,
            old_rows_go_and_dedupe_keys_stay_for_their_time,
        }
        surface {
            tokens_are_made_seen_and_revoked,
            a_name_that_owns_tasks_is_given_to_nobody_else_unasked,
            there_are_so_many_tokens_and_no_more,
            a_login_becomes_one_session,
            sessions_end_unused_or_old,
            sessions_are_bounded,
            revoked_sessions_refuse_what_comes_late,
            pages_go_back_in_time,
            the_liveliest_conversation_comes_first,
            references_find_what_people_mean,
            own_parts_are_found_among_many,
            what_changed_lately_is_found,
            an_event_makes_its_message_new,
        }
        tasks {
            a_task_and_its_message_are_on_disk_together,
            a_task_is_told_more_until_it_is_over,
            a_finished_task_is_told_of_once,
            a_notification_is_given_up_and_sent_again_when_asked_for,
            a_task_goes_with_its_messages,
            tasks_that_write_in_one_directory_take_turns,
        }
        old_tasks {
            old_tasks_are_imported_as_finished,
            old_tasks_are_imported_once,
            old_failures_are_no_dead_letters,
            old_notifications_wait_until_asked_for,
            local_end_is_fetched_once,
        }
        budgets {
            who_used_up_its_turns_waits_until_one_is_a_day_old,
            what_waits_for_a_budget_is_told_once,
            a_message_that_waits_for_a_budget_too_long_is_a_dead_letter,
            tokens_count_also_of_turns_without_an_answer,
            what_is_claimed_counts_before_its_turn_begins,
        }
        a2a_tasks {
            task_input_and_message_commit_together,
            repeated_key_is_one_input,
            foreign_task_is_unknown,
            task_takes_input_until_over,
            waiting_task_can_be_stopped,
            task_inputs_are_bounded,
            input_answers_a_request,
            repeated_answer_is_known_by_key,
            repeated_message_answers_nothing,
            task_owner_cannot_approve,
            event_numbers_never_go_back,
            tasks_list_by_newest_change,
            simultaneous_tasks_are_paged,
            task_goes_with_its_last_message,
            result_stays_until_task_goes,
        }
        pushes {
            a_push_configuration_comes_back_as_it_was_put,
            everything_is_told_in_order_and_then_it_is_closed,
            a_receiver_that_is_away_is_tried_later_and_given_up_in_a_day,
            an_owner_has_so_many_push_configurations_and_no_more,
            whoever_loses_its_token_is_told_nothing_more,
        }
        lists {
            acts_come_in_pages_with_their_sums,
            acts_are_found_by_conditions,
            texts_are_found_in_messages_and_answers,
            senders_are_counted_with_what_they_used,
            finished_messages_are_figures_by_end,
        }
        together {
            many_conversations_go_on_at_once,
        }
    }
}
