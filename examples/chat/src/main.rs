//! `isomer-chat serve`: the chat over HTTP on one of four stores; `fill`: the data of the load test.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use isomer_chat::{Backend, fill, front, http, open, store::Durability};

/// The same allocator as in the binary of IsomerDB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A chat application on IsomerDB, and for comparison on PostgreSQL and LevelDB.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
struct Where {
    /// The store
    #[arg(long, value_enum, default_value = "isomer")]
    backend: Backend,
    /// Its folder (not for PostgreSQL)
    #[arg(long, default_value = "chat.isomer")]
    data: PathBuf,
    /// Connection parameters of PostgreSQL, as in libpq
    #[arg(long, default_value = "host=/var/run/postgresql dbname=chat")]
    postgres: String,
    /// Acknowledge commits before they are on disk
    #[arg(long)]
    asynchronous: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the chat and its page
    Serve {
        #[command(flatten)]
        store: Where,
        /// Address and port
        #[arg(long, default_value = "127.0.0.1:4800")]
        listen: SocketAddr,
    },
    /// Fills an empty store with users, chats and messages; prints the chats that are read, as JSON
    Fill {
        #[command(flatten)]
        store: Where,
        /// Users
        #[arg(long, default_value_t = 1000)]
        users: u64,
        /// Chats of each
        #[arg(long, default_value_t = 20)]
        chats: u64,
        /// Messages in each chat of a reader
        #[arg(long, default_value_t = 10_000)]
        messages: u64,
        /// Users with a session
        #[arg(long, default_value_t = 16)]
        readers: u64,
    },
}

impl Where {
    fn open(
        &self,
        durability: Durability,
    ) -> Result<std::sync::Arc<dyn isomer_chat::store::ChatStore>> {
        open(self.backend, &self.data, &self.postgres, durability)
    }
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Fill {
            store,
            users,
            chats,
            messages,
            readers,
        } => {
            // If it is interrupted, it is created again, so it need not be durable.
            let opened = store.open(Durability::Asynchronous)?;
            let read = fill::fill(
                &*opened,
                fill::Size {
                    users,
                    chats,
                    messages,
                    readers,
                },
            )?;
            println!("{}", serde_json::to_string(&read)?);
            Ok(())
        }
        Command::Serve { store, listen } => {
            let durability = if store.asynchronous {
                Durability::Asynchronous
            } else {
                Durability::Synced
            };
            let app = Arc::new(http::App::new(store.open(durability)?)?);
            let listener = TcpListener::bind(listen)?;
            eprintln!("the chat is at http://{}/", listener.local_addr()?);
            Ok(front::serve(&listener, &app)?)
        }
    }
}
